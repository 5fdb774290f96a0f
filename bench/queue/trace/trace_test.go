// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

const head = "timestamp,duration,num_gpus,gpu_time,cluster\n"

func TestATraceIsReadInTheOrderOfSubmission(t *testing.T) {
	t.Parallel()
	got, err := parse(strings.NewReader(head + "2017-09-06 07:01:55,66.0,16,1056,b\n2017-09-05 00:00:00,0.5,1,0.5,a\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Begin.Equal(time.Date(2017, 9, 4, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("it begins on %v, want the Monday before", got.Begin)
	}
	if j := got.Jobs[0]; j.Cluster != "a" || j.Duration != time.Second || j.ID != 3 {
		t.Errorf("the first job is %+v", j)
	}
	if j := got.Jobs[1]; j.GPUs != 16 || j.Duration != 66*time.Second {
		t.Errorf("the second job is %+v", j)
	}
}

func TestABrokenTraceIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing": "", "no jobs": head, "no column": "timestamp,duration,cluster\n2017-09-06 07:01:55,66.0,b\n",
		"no time": head + "yesterday,66.0,16,1056,b\n", "no duration": head + "2017-09-06 07:01:55,x,16,1056,b\n",
		"no GPUs": head + "2017-09-06 07:01:55,66,0,1056,b\n",
	} {
		if got, err := parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestASeedMovesSubmissionsALittle(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("2017-09-06 07:01:55,66.0,16,1056,b\n", 50)
	first, err := parse(strings.NewReader(head + text))
	if err != nil {
		t.Fatal(err)
	}
	moved, again, other := first.Jittered(1), first.Jittered(1), first.Jittered(2)
	differ := 0
	for i := range moved.Jobs {
		if by := moved.Jobs[i].Submitted.Sub(first.Jobs[i].Submitted).Abs(); by > jitter {
			t.Errorf("moved by %v", by)
		}
		if moved.Jobs[i] != again.Jobs[i] {
			t.Errorf("the same seed gives %+v and %+v", moved.Jobs[i], again.Jobs[i])
		}
		if moved.Jobs[i] != other.Jobs[i] {
			differ++
		}
	}
	if differ < 40 {
		t.Error("another seed gives the same times")
	}
}

func TestLimitsAreUsualOnesAndNeverTooShort(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		j := Job{Duration: time.Duration(random.Float64() * float64(50*24*time.Hour))}
		limit := j.Limit(random)
		if limit < j.Duration || limit > 22*j.Duration && limit > time.Hour {
			t.Fatalf("%v: declared %v", j.Duration, limit)
		}
	}
}
