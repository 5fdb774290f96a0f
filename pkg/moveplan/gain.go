// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// gain returns what a plan that ends has achieved; nil if it moved nothing.
func (s *step) gain() *v1.MoveGain {
	if s.status.Moved == 0 {
		return nil
	}
	if s.Plan.Spec.Goal == v1.GoalPendingTask {
		return &v1.MoveGain{GPUs: s.gpusOfTask()}
	}
	if s.status.Moved == s.status.Total {
		return s.Plan.Spec.Gain.DeepCopy()
	}
	return s.partialGain()
}

// gpusOfTask returns how many GPUs the task that room was made for has now.
func (s *step) gpusOfTask() int32 {
	task := taskOf(s.tasks, s.Plan.Spec.For)
	if stopped(task) || !started(task) {
		return 0
	}
	percent := 0
	for _, pod := range task.Pods {
		if shape, err := snapshot.Shape(pod); err == nil && pod.Spec.NodeName != "" {
			percent += snapshot.GPUPercent(&shape)
		}
	}
	return int32((percent + placement.Card - 1) / placement.Card)
}

// partialGain counts the nodes from which all planned moves succeeded, and their GPUs.
func (s *step) partialGain() *v1.MoveGain {
	gain := &v1.MoveGain{}
	for _, node := range s.Plan.Spec.Gain.Nodes {
		gpus, whole := 0, true
		for i := range s.Plan.Spec.Moves {
			move := &s.Plan.Spec.Moves[i]
			if move.From.Node != node {
				continue
			}
			whole = whole && s.status.Moves[i].State == v1.MoveMoved
			gpus += len(move.From.GPUs)
		}
		if whole {
			gain.Nodes = append(gain.Nodes, node)
			gain.GPUs += int32(gpus)
		}
	}
	gain.GPUs = min(gain.GPUs, s.Plan.Spec.Gain.GPUs)
	return gain
}
