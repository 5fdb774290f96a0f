// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"sync"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
)

const (
	// mostOutcomes is how many outcomes are kept over restarts.
	mostOutcomes = 1000
	// mostWait is the longest wait that makes sense: ten years.
	mostWait = 10 * 365 * 24 * time.Hour
)

// outcome is how an estimate turned out, in seconds.
type outcome struct {
	Estimated float64 `json:"estimated"`
	Waited    float64 `json:"waited"`
}

// outcomes are how the last estimates turned out. They are safe for concurrent use.
type outcomes struct {
	mu          sync.Mutex
	calibration outlook.Calibration
	// last are those that are kept over restarts, the last one last.
	last []outcome
}

func (o *outcomes) add(estimated, waited time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(outcome{Estimated: max(estimated, 0).Seconds(), Waited: max(waited, 0).Seconds()})
}

// restore puts outcomes before those that are known.
func (o *outcomes) restore(earlier []outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	later := o.last
	o.calibration, o.last = outlook.Calibration{}, nil
	for _, one := range slices.Concat(earlier, later) {
		o.put(one)
	}
}

// put requires the lock.
func (o *outcomes) put(one outcome) {
	o.calibration.Outcome(seconds(one.Estimated), seconds(one.Waited))
	o.last = append(o.last, one)
	if surplus := len(o.last) - mostOutcomes; surplus > 0 {
		o.last = slices.Delete(o.last, 0, surplus)
	}
}

// adjust corrects an estimate by how others turned out.
func (o *outcomes) adjust(estimate outlook.Estimate, now time.Time) outlook.Estimate {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calibration.Adjust(estimate, now)
}

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }
