// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/admissioncheck"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/kueue"
	"falldio.github.io/gpu-controller/workloads"
)

// admissions is the controller's view of Kueue, to which tasks can be submitted.
type admissions interface {
	// Admission returns what Kueue says about a task with the given Pods, nil if it has nothing to do
	// with it; known is false if this can't be told yet.
	Admission(task *v1.GPUTask, pods []*corev1.Pod) (admission *gputask.Admission, known bool, err error)
	// Report tells Kueue the newest status of a task, and how many Pods it has: the given ones and those that the plan creates.
	Report(ctx context.Context, task *v1.GPUTask, plan *gputask.Plan, pods []*corev1.Pod) error
	// Run watches what Kueue decides until ctx ends.
	Run(ctx context.Context)
}

// noAdmissions is used where Kueue can't be reached.
type noAdmissions struct{}

var _ admissions = noAdmissions{}

// Admission implements admissions.
func (noAdmissions) Admission(*v1.GPUTask, []*corev1.Pod) (*gputask.Admission, bool, error) {
	return nil, true, nil
}

// Report implements admissions.
func (noAdmissions) Report(context.Context, *v1.GPUTask, *gputask.Plan, []*corev1.Pod) error {
	return nil
}

// Run implements admissions.
func (noAdmissions) Run(context.Context) {}

// enqueueInKueue enqueues the tasks that are submitted to a queue of Kueue.
func (c *Controller) enqueueInKueue() {
	for _, object := range c.taskIndex.List() {
		if task, ok := object.(*v1.GPUTask); ok && kueue.QueueOf(task) != "" {
			c.enqueue(cache.MetaObjectToName(task))
		}
	}
}

// newAdmissions returns what submits tasks to Kueue, where that is installed.
func (p *process) newAdmissions(opts *options) admissions {
	if p.clients.dynamic == nil {
		return noAdmissions{}
	}
	classes := p.clusterInformers.Scheduling().V1().PriorityClasses()
	return workloads.New(workloads.Dependencies{
		Client:        p.clients.dynamic,
		Discovery:     p.clients.discovery,
		Reviews:       p.clients.kube.AuthorizationV1().SelfSubjectAccessReviews(),
		Clock:         p.clock,
		Namespace:     opts.namespace,
		Pods:          opts.tasks.Pods,
		Classes:       classes.Lister(),
		ClassesSynced: classes.Informer().HasSynced,
		Changed:       func(task cache.ObjectName) { p.controller.enqueue(task) },
		AllChanged:    func() { p.controller.enqueueInKueue() },
	})
}

// newAdmissionCheck returns what answers Kueue's admission check gpu-fit.
func (p *process) newAdmissionCheck(ctx context.Context, opts *options) (part, error) {
	settings := opts.gpuFit
	settings.Levels = opts.rescheduling.Levels
	return admissioncheck.New(ctx, admissioncheck.Dependencies{
		NodeInformers: p.nodeInformers,
		Pods:          p.gpuPods,
		Dynamic:       p.clients.dynamic,
		Discovery:     p.clients.discovery,
		Clock:         p.clock,
	}, settings)
}
