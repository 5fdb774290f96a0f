// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestQuantilesOfSortedTimes(t *testing.T) {
	t.Parallel()
	times := []time.Duration{1, 2, 3, 4, 100}
	for percent, want := range map[int]time.Duration{0: 1, 50: 3, 99: 4, 100: 100} {
		if got := quantile(times, percent); got != want {
			t.Errorf("quantile(%d) = %v, want %v", percent, got, want)
		}
	}
}

func TestRoundsTakeTurnsAndTheFirstDoesNotCount(t *testing.T) {
	t.Parallel()
	var order strings.Builder
	contest := Contest{
		Name: "ours", Than: "theirs", Rounds: 2,
		Ours:     func() error { order.WriteString("o"); return nil },
		Baseline: func() error { order.WriteString("b"); return nil },
	}
	result, err := contest.Run()
	if err != nil || order.String() != "obobob" || len(result.ours) != 2 || len(result.baseline) != 2 {
		t.Errorf("order %s, result %+v, %v", &order, result, err)
	}
}

func TestAFailureNamesWhatFailed(t *testing.T) {
	t.Parallel()
	contest := Contest{
		Name: "ours", Than: "theirs", Rounds: 1,
		Ours:     func() error { return nil },
		Baseline: func() error { return errors.New("broken") },
	}
	if _, err := contest.Run(); err == nil || err.Error() != "ours: theirs: broken" {
		t.Errorf("the error is %v", err)
	}
}

func TestTheTableHasTheRatio(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	result := &Result{Contest: Contest{Name: "write", Than: "read and update"}, ours: []time.Duration{1000}, baseline: []time.Duration{4000}}
	if err := Print(&table, result); err != nil || !strings.Contains(table.String(), "write  1µs     1µs  read and update  4µs     4µs  0.2500") {
		t.Errorf("%v\n%s", err, &table)
	}
}
