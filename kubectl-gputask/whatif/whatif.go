// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package whatif asks whether and when tasks would fit that don't exist, for the command and for the page in a browser.
package whatif

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/change"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

// Ask answers for one task, and returns the view of the cluster that the answer is about. If the task fits now, it
// stays in the observation, with its Pods placed, for the tasks after it.
func Ask(observed *cluster.Observation, task *v1.GPUTask) (*analysis.View, *analysis.WhatIf, error) {
	imagined, err := analysis.NewHypothetical(task, analysis.GPUResource(observed.Nodes), observed.Priorities.Admit, metav1.NewTime(observed.Now))
	if err != nil {
		return nil, nil, err
	}
	before := observed.Tasks
	observed.Tasks = slices.Concat(before, []clusterview.Task{*imagined})
	view := analysis.NewView(&observed.Objects, nil)
	view.UseQueues(observed.Queues.ForAnalysis(), observed.Waiting)
	answer := view.WhatIf(imagined)
	if answer.Verdict != analysis.Now {
		observed.Tasks = before
		return view, answer, nil
	}
	if err := view.Settle(imagined, answer.Outlook); err != nil {
		return nil, nil, err
	}
	observed.Pods = slices.Concat(observed.Pods, imagined.Pods)
	return view, answer, nil
}

// Parse reads YAML or JSON documents with GPUTasks from a file, or whatever has that name.
func Parse(in io.Reader, name string) ([]*v1.GPUTask, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(in))
	var tasks []*v1.GPUTask
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		task, err := decode(document)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		if task.Kind == "" && task.Name == "" {
			continue // a document with only comments
		}
		if task.GroupVersionKind() != v1.TaskKind() {
			return nil, fmt.Errorf("reading %s: %s %q: must be of apiVersion %s and kind %s", name, cmp.Or(task.Kind, "object"), task.Name, v1.GroupVersion, v1.TaskKind().Kind)
		}
		tasks = append(tasks, task)
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("reading %s: there are no GPUTasks in it", name)
	}
	return tasks, nil
}

// decode is as strict as the API server, for which the number 2 is not the text "2".
func decode(document []byte) (*v1.GPUTask, error) {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, err
	}
	task := &v1.GPUTask{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(task); err != nil {
		return nil, err
	}
	return task, nil
}

// Check has the API server validate and default a task. For users without the
// right to create tasks, it returns the task unchanged.
func Check(ctx context.Context, clients *cluster.Clients, task *v1.GPUTask) (*v1.GPUTask, error) {
	trial := task.DeepCopy()
	trial.ResourceVersion, trial.UID = "", ""
	// A task of that name may exist.
	if task.Name == "" {
		task.Name = "whatif"
	}
	trial.Name, trial.GenerateName = "", namePrefix(task.Name)
	options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: change.FieldManager}
	checked, err := clients.Tasks.FalldioV1().GPUTasks(task.Namespace).Create(ctx, trial, options)
	if apierrors.IsForbidden(err) {
		return task, nil // the dry run is optional
	}
	if err != nil {
		return nil, err
	}
	checked.Name, checked.GenerateName = task.Name, ""
	return checked, nil
}

// namePrefix truncates a name so that the API server can append its random suffix.
func namePrefix(name string) string {
	const room = 58 - 5
	return name[:min(len(name), room)]
}
