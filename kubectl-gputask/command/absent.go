// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpumodel"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// warnOfAbsent says at once which GPU models of a new task no node has, and that there is no such PriorityClass. Users
// who may not list them read it in the task's message.
func (s *session) warnOfAbsent(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) {
	wanted := map[string]bool{}
	roles := gputask.Roles(task)
	for i := range roles {
		wanted[roles[i].GPU] = true
	}
	delete(wanted, "")
	if len(wanted) > 0 {
		s.warnOfAbsentModels(ctx, clients, slices.Sorted(maps.Keys(wanted)))
	}
	if task.Spec.Priority == "" {
		return
	}
	if priorities, err := cluster.ListPriorities(ctx, clients); err == nil {
		if err := priorities.Admit(&corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: task.Spec.Priority}}); err != nil {
			fmt.Fprintf(s.ErrOut, "Warning: %v\n", err)
		}
	}
}

func (s *session) warnOfAbsentModels(ctx context.Context, clients *cluster.Clients, wanted []string) {
	models, err := nodeLabel(v1.LabelGPUModel)(ctx, clients)
	if err != nil {
		return
	}
	for _, model := range wanted {
		if text := gpumodel.Absent([]string{model}, models); text != "" {
			fmt.Fprintf(s.ErrOut, "Warning: spec.gpu: %s\n", text)
		}
	}
}
