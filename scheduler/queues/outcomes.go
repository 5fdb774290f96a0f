// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

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

// outcome is an outlook.Outcome as it is kept, in seconds.
type outcome struct {
	Age       int     `json:"age,omitempty"`
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

func (o *outcomes) add(one outlook.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.put(outcome{Age: one.Age, Estimated: max(one.Estimated, 0).Seconds(), Waited: max(one.Waited, 0).Seconds()})
}

// putBefore puts outcomes before those that are known.
func (o *outcomes) putBefore(earlier []outcome) {
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
	o.calibration.Add(outlook.Outcome{Age: one.Age, Estimated: seconds(one.Estimated), Waited: seconds(one.Waited)})
	o.last = append(o.last, one)
	if surplus := len(o.last) - mostOutcomes; surplus > 0 {
		o.last = slices.Delete(o.last, 0, surplus)
	}
}

// adjust corrects an estimate for a gang that has waited for some time by how others turned out.
func (o *outcomes) adjust(estimate outlook.Estimate, waited time.Duration, now time.Time) outlook.Estimate {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calibration.Adjust(estimate, waited, now)
}

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }
