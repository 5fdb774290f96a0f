// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"testing"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

func TestEstimatesAreCorrectedByTheWaitsOfThoseThatStarted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		held map[string]int
		want time.Duration
	}{
		"they started after three times as long": {map[string]int{"default/gang": 800}, 3 * time.Hour},
		"they were deleted":                      {nil, time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known, turnedOut := &estimates{written: map[string]writtenEstimate{}}, outcomes{}
			for i := range 30 {
				submitted := beginning.Add(time.Duration(i) * 24 * time.Hour)
				place := &Place{Waiting: gangs.Waiting{Key: "default/gang", Since: submitted}}
				known.wrote(place, &v1.StartEstimate{Position: 1}, time.Hour, submitted)
				known.wrote(place, &v1.StartEstimate{Position: 2}, time.Minute, submitted.Add(2*time.Minute)) // of the same age
				known.forget(nil, test.held, submitted.Add(3*time.Hour), turnedOut.add)
			}
			estimate := outlook.Estimate{Likely: beginning.Add(time.Hour)}
			if got := turnedOut.adjust(estimate, 0, beginning).Likely.Sub(beginning); (got - test.want).Abs() > time.Second {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if len(known.written) > 0 {
				t.Errorf("%v are remembered although nothing waits", fmt.Sprint(known.written))
			}
		})
	}
}
