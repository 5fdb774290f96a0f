// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package whatif asks whether and when tasks would fit that don't exist, and creates them, for the command and for the
// page in a browser.
package whatif

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/change"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

// Ask answers for one task, and returns the view of the cluster that the answer is about. If the task fits now, it
// stays in the observation, with its Pods placed, for the tasks after it. named is what Look has returned.
func Ask(observed *cluster.Observation, task *v1.GPUTask, named analysis.Named) (*analysis.View, *analysis.WhatIf, error) {
	imagined, err := analysis.NewHypothetical(task, analysis.GPUResource(observed.Nodes), observed.Priorities.Admit, metav1.NewTime(observed.Now))
	if err != nil {
		return nil, nil, err
	}
	before := observed.Tasks
	observed.Tasks = slices.Concat(before, []clusterview.Task{*imagined})
	view := analysis.NewView(&observed.Objects, nil)
	view.UseQueues(observed.Queues.ForAnalysis(), observed.Waiting)
	answer := view.WhatIf(imagined)
	answer.Heed(named)
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

// Check has the API server validate and default a task. For users without the
// right to create tasks, it returns the task unchanged.
func Check(ctx context.Context, clients *cluster.Clients, manifest *Manifest) (*v1.GPUTask, error) {
	task, trial := manifest.GPUTask, manifest.unnumbered()
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
		return nil, manifest.refused(err)
	}
	checked.Name, checked.GenerateName = task.Name, ""
	return checked, nil
}

// Create creates a task. Its namespace must be set.
func Create(ctx context.Context, clients *cluster.Clients, manifest *Manifest) (*v1.GPUTask, error) {
	options := metav1.CreateOptions{FieldManager: change.FieldManager}
	created, err := clients.Tasks.FalldioV1().GPUTasks(manifest.Namespace).Create(ctx, manifest.unnumbered(), options)
	if err != nil {
		return nil, manifest.refused(err)
	}
	return created, nil
}

// unnumbered returns a copy of the task without what the API server has given the one that it was written from.
func (m *Manifest) unnumbered() *v1.GPUTask {
	task := m.DeepCopy()
	task.ResourceVersion, task.UID = "", ""
	return task
}

// refused returns why the API server refuses a task, field by field and with their lines, instead of an error with the
// name that it has made up.
func (m *Manifest) refused(err error) error {
	invalid := &InvalidError{}
	for _, cause := range apierror.InvalidFields(err) {
		invalid.Fields = append(invalid.Fields, InvalidField{Path: cause.Field, Line: m.lines.of(cause.Field), Text: cause.Message})
	}
	if len(invalid.Fields) == 0 {
		return err
	}
	return invalid
}

// namePrefix truncates a name so that the API server can append its random suffix.
func namePrefix(name string) string {
	const room = 58 - 5
	return name[:min(len(name), room)]
}
