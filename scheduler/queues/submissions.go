// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"math/rand/v2"
	"sync"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/queueing/arrivals"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// likelyToCome is the key of all gangs that are likely to come. No gang that exists has it.
const likelyToCome = "likely to come"

// submissions are the gangs that were submitted in the last days.
type submissions struct {
	mu     sync.Mutex
	record arrivals.Record
}

func (s *submissions) add(group string, one arrivals.Submission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Add(group, one)
}

// again returns the submissions of the last days with the times at which they would come again.
func (s *submissions) again(now time.Time) [][]arrivals.Submission {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.Again(now)
}

// Submitted records a gang that is tried for the first time. Pods that replace others of a gang, or join it, are no
// submission.
func (l *Line) Submitted(attempt *gangs.Attempt) {
	if len(attempt.Placed) > 0 {
		return
	}
	pod, percent := attempt.Waiting[0].Pod(), 0
	for _, m := range attempt.Waiting {
		percent += snapshot.GPUPercent(&m.Shape)
	}
	if percent == 0 {
		return
	}
	one := arrivals.Submission{
		At: attempt.Group.Since, Queue: l.State().QueueOfRunning(pod.Namespace, pod.Labels[v1.LabelQueue]), Percent: percent, Task: taskOf(pod), Needs: needsOf(attempt),
	}
	l.submissions.add(attempt.Group.Key, one)
}

// scenarios returns the gangs that may come within a day: those that came on each of the last days.
func (l *Line) scenarios(state *State, random *rand.Rand, now time.Time) [][]outlook.Coming {
	days := l.submissions.again(now)
	list := make([][]outlook.Coming, 0, len(days))
	for _, day := range days {
		list = append(list, l.coming(state, day, random, now))
	}
	return list
}

// coming returns gangs that come when they would come again.
func (l *Line) coming(state *State, again []arrivals.Submission, random *rand.Rand, now time.Time) []outlook.Coming {
	options, factors := l.optionsFor(state), state.Factors()
	list := make([]outlook.Coming, 0, len(again))
	for i := range again {
		one := &again[i]
		runtime, duration := l.book.durationAgain(state, one, random)
		factor, known := factors[one.Queue]
		if !known {
			factor = 1
		}
		turn := options.Key(&queueing.Job{
			Queue: one.Queue, Submitted: one.At, GPUs: float64(one.Percent) / placement.Card, Runtime: runtime,
		}, factor)
		list = append(list, outlook.Coming{After: one.At.Sub(now), Waiting: outlook.Waiting{
			Key: likelyToCome, Turn: turn, Needs: one.Needs, Duration: duration,
		}})
	}
	return list
}

// durationAgain returns how long a gang runs that was submitted before.
func (b *queueBook) durationAgain(state *State, one *arrivals.Submission, random *rand.Rand) (queueing.Runtime, outlook.Duration) {
	task := one.Task
	if task.Limit == 0 {
		task.Limit = state.Tree().DefaultRuntime(one.Queue)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	estimate := b.history.Estimate(task)
	return estimate.Runtime(), durationOf(&estimate, 0, random)
}
