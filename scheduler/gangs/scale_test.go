// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"fmt"
	"testing"
	"time"
)

// manyRun is how many Pods run in no gang, failMany how many gangs have found no place.
const (
	manyRun  = 50_000
	failMany = 1000
)

// busyFixture is a registry of a large cluster: many Pods run, and many gangs have just
// found no place.
func busyFixture(tb testing.TB) *fixture {
	tb.Helper()
	f := newFixture(tb)
	for i := range manyRun {
		f.Observe(onNode(pod(fmt.Sprint("runs-", i)), "a"))
	}
	for i := range failMany {
		pods := gangOf(fmt.Sprint("waits-", i), 2, 2)
		f.Observe(pods[0])
		f.Observe(pods[1])
		f.fail(pods[0], time.Second)
	}
	f.Count()
	return f
}

// fastest returns how long the fastest of some calls took: the others may have been
// interrupted by other programs.
func fastest(do func()) time.Duration {
	least := time.Hour
	for range 20 {
		begin := time.Now()
		do()
		least = min(least, time.Since(begin))
	}
	return least
}

// A scan of all groups takes milliseconds.
func TestPeriodicWorkDoesNotGrowWithAllGroups(t *testing.T) {
	t.Parallel()
	f := busyFixture(t)
	tests := []struct {
		name string
		do   func()
	}{
		{"requeueing before the pauses are over", func() { f.Due(f.now(), 64) }},
		{"requeueing when nothing has happened", func() { f.Due(f.now().Add(2*time.Second), 64) }},
		{"looking for gangs that are incomplete", func() { f.Partial(f.now(), nil) }},
		{"counting gangs", func() { f.Count() }},
		{"requeueing a gang after a Pod has ended", func() {
			f.step(2 * time.Second)
			f.Wake(f.now())
			if due := f.Due(f.now(), 1); len(due) != 1 {
				t.Fatalf("due are %v, want one", namesOf(due))
			}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if took := fastest(test.do); took > 100*time.Microsecond {
				t.Errorf("it takes %v, want at most 100 µs", took)
			}
		})
	}
}

// orderThose orders those that wait, as it is done twice a second with queues.
func orderThose(f *fixture) {
	turns := map[string]float64{}
	for i, one := range f.Waiting() {
		turns[one.Key] = float64(i)
	}
	f.SetTurns(turns)
}

func TestOrderingThoseThatWaitDoesNotGrowWithThoseThatRun(t *testing.T) {
	t.Parallel()
	f := busyFixture(t)
	for i := range failMany - 10 {
		for _, p := range gangOf(fmt.Sprint("waits-", i), 2, 2) {
			f.Forget(p.UID)
		}
	}
	if took := fastest(func() { orderThose(f) }); took > 100*time.Microsecond {
		t.Errorf("ordering 10 gangs takes %v while %d Pods run, want at most 100 µs", took, manyRun)
	}
}

// BenchmarkOrderingThoseThatWait is with 50,000 Pods that run and 1,000 gangs that wait.
func BenchmarkOrderingThoseThatWait(b *testing.B) {
	f := busyFixture(b)
	for b.Loop() {
		orderThose(f)
	}
}
