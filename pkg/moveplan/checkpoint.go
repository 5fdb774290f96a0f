// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"fmt"
	"time"

	"falldio.github.io/gpu-controller/pkg/checkpoint"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// awaitCheckpoints reports whether a turn has to wait until its Pods have saved their work, and asks
// them to do so.
func (s *step) awaitCheckpoints(turn int32, indices []int) bool {
	var pods []checkpoint.Pod
	for _, i := range indices {
		if seen := s.observe(&s.Plan.Spec.Moves[i]); seen.before != nil && seen.task != nil {
			pods = append(pods, checkpoint.Pod{Pod: seen.before, Task: seen.task.Annotations})
		}
	}
	ask, wait := checkpoint.Before(pods, s.now)
	if wait <= 0 {
		return false
	}
	s.out.AskForCheckpoint = ask
	task := &s.Plan.Spec.Moves[indices[0]].Task
	s.status.Message = fmt.Sprintf("turn %d of %d waits for a checkpoint of GPUTask %s/%s", turn+1, turns(s.Plan), task.Namespace, task.Name)
	s.requeueAfter(min(wait, waitCheck))
	return true
}

// stopTime is how long the Pods of a task may take from the first notice until they have terminated.
func stopTime(task *clusterview.Task) time.Duration {
	if task == nil {
		return gputask.DefaultGracePeriod
	}
	return gputask.CheckpointTimeout(task.GPUTask) + gputask.GracePeriod(task.GPUTask)
}
