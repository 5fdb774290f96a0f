// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package estimate

import (
	"math"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

const (
	node     = "n1"
	halfLife = time.Minute
	expiry   = 5 * time.Minute
)

func newEstimator() (*Estimator, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	return New(Config{Clock: clock, HalfLife: halfLife, Expiry: expiry}), clock
}

func TestEstimates(t *testing.T) {
	t.Parallel()
	type step struct {
		after    time.Duration
		measured time.Duration // 0 for none
	}
	tests := map[string]struct {
		steps []step
		want  time.Duration // 0 for unknown
	}{
		"nothing was measured":                          {nil, 0},
		"the first measurement counts alone":            {[]step{{0, 100 * time.Millisecond}}, 100 * time.Millisecond},
		"an estimate stays while it is fresh":           {[]step{{0, 100 * time.Millisecond}, {expiry - 1, 0}}, 100 * time.Millisecond},
		"an estimate expires":                           {[]step{{0, 100 * time.Millisecond}, {expiry, 0}}, 0},
		"after a half-life both count alike":            {[]step{{0, 100 * time.Millisecond}, {halfLife, 300 * time.Millisecond}}, 200 * time.Millisecond},
		"after two half-lives the new one counts more":  {[]step{{0, 100 * time.Millisecond}, {2 * halfLife, 500 * time.Millisecond}}, 400 * time.Millisecond},
		"at the same time the old one counts":           {[]step{{0, 100 * time.Millisecond}, {0, 900 * time.Millisecond}}, 100 * time.Millisecond},
		"how often is asked does not matter":            {[]step{{0, 100 * time.Millisecond}, {halfLife / 2, 300 * time.Millisecond}, {halfLife / 2, 300 * time.Millisecond}}, 200 * time.Millisecond},
		"after an expiry the old one does not count":    {[]step{{0, 100 * time.Millisecond}, {expiry, 300 * time.Millisecond}}, 300 * time.Millisecond},
		"a measurement renews an estimate":              {[]step{{0, 100 * time.Millisecond}, {expiry - 1, 100 * time.Millisecond}, {expiry - 1, 0}}, 100 * time.Millisecond},
		"a clock that goes back does not harm":          {[]step{{0, 100 * time.Millisecond}, {-time.Hour, 900 * time.Millisecond}}, 100 * time.Millisecond},
		"a long row of the same is the same in the end": {[]step{{0, time.Second}, {halfLife, time.Millisecond}, {4 * halfLife, time.Millisecond}, {4 * halfLife, time.Millisecond}}, 2951 * time.Microsecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			estimator, clock := newEstimator()
			question := Question{Target: "t", Module: "m"}
			for _, step := range test.steps {
				clock.Step(step.after)
				if step.measured > 0 {
					estimator.Observe(question, node, step.measured)
				}
			}
			got := estimator.Estimates(question, []string{node})[0]
			if got.Known != (test.want > 0) || math.Abs((got.Duration-test.want).Seconds()) > 1e-6 {
				t.Errorf("got %+v, want %v", got, test.want)
			}
		})
	}
}

func TestQuestionsAndNodesAreKeptApart(t *testing.T) {
	t.Parallel()
	estimator, _ := newEstimator()
	estimator.Observe(Question{"a", "m"}, "n1", time.Second)
	estimator.Observe(Question{"a", "m"}, "n2", 2*time.Second)
	for _, test := range []struct {
		question Question
		want     []Estimate
	}{
		{Question{"a", "m"}, []Estimate{{true, 2 * time.Second}, {}, {true, time.Second}}},
		{Question{"a", "other"}, []Estimate{{}, {}, {}}},
		{Question{"b", "m"}, []Estimate{{}, {}, {}}},
	} {
		got := estimator.Estimates(test.question, []string{"n2", "n3", "n1"})
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%v: got %v, want %v", test.question, got, test.want)
			}
		}
	}
}

func TestWhatIsOldOrNotWantedIsDropped(t *testing.T) {
	t.Parallel()
	estimator, clock := newEstimator()
	old, young := Question{"a", "m"}, Question{"b", "m"}
	estimator.Observe(old, "n1", time.Second)
	clock.Step(expiry / 2)
	estimator.Observe(young, "n1", time.Second)
	estimator.Observe(young, "n2", time.Second)
	if count, oldest := estimator.Ages(); count != 3 || oldest != expiry/2 {
		t.Errorf("%d values, the oldest %v", count, oldest)
	}
	clock.Step(expiry / 2)
	if count, oldest := estimator.Ages(); count != 2 || oldest != expiry/2 {
		t.Errorf("%d fresh values, the oldest %v", count, oldest)
	}
	estimator.Prune()
	if len(estimator.values) != 1 || len(estimator.values[young]) != 2 {
		t.Errorf("after pruning: %v", estimator.values)
	}
	estimator.Forget(young)
	if count, oldest := estimator.Ages(); count != 0 || oldest != 0 || len(estimator.values) != 0 {
		t.Errorf("after forgetting: %v", estimator.values)
	}
}
