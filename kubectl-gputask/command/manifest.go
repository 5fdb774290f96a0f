// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"falldio.github.io/gpu-controller/kubectl-gputask/whatif"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// readTasks reads the tasks of the file of the flag --filename; "-" is the standard input.
func (s *session) readTasks(file string) ([]*v1.GPUTask, error) {
	in := s.In
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("--filename: %w", err)
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	return whatif.Parse(in, file)
}

// readTask reads the only task of such a file.
func (s *session) readTask(file string) (*v1.GPUTask, error) {
	tasks, err := s.readTasks(file)
	if err != nil {
		return nil, err
	}
	if len(tasks) != 1 {
		return nil, fmt.Errorf("--filename=%s: must have one GPUTask, but has %d: `kubectl apply -f` creates several", file, len(tasks))
	}
	return tasks[0], nil
}

// overlaid returns a task with what another one sets instead, as "kubectl patch" does: containers, variables, volumes
// and mounts are merged by their names.
func overlaid(base, over *v1.GPUTask) (*v1.GPUTask, error) {
	original, err := json.Marshal(base)
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(over)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, v1.GPUTask{})
	if err != nil {
		return nil, err
	}
	task := &v1.GPUTask{}
	return task, json.Unmarshal(merged, task)
}
