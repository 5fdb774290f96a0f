// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpumodel"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// warnOfAbsentModels says at once which GPU models of a new task no node has. Users who may not list nodes read it in
// the task's message.
func (s *session) warnOfAbsentModels(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) {
	roles, warned := gputask.Roles(task), map[string]bool{"": true}
	for i := range roles {
		model := roles[i].GPU
		if warned[model] {
			continue
		}
		warned[model] = true
		models, err := nodeLabel(v1.LabelGPUModel)(ctx, clients)
		if err != nil {
			return
		}
		if text := gpumodel.Absent([]string{model}, models); text != "" {
			fmt.Fprintf(s.ErrOut, "Warning: spec.gpu: %s\n", text)
		}
	}
}
