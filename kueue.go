// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/admissioncheck"
	"falldio.github.io/gpu-controller/workloads"
)

// joinKueue prepares what the process does where Kueue is installed: the Workloads of tasks, and the
// admission check if it is enabled.
func (p *process) joinKueue(ctx context.Context, clients clients, clock clock.WithTicker, opts *options) (_ admissions, err error) {
	if clients.dynamic == nil {
		return noAdmissions{}, nil
	}
	if opts.gpuFit.Enabled {
		settings := opts.gpuFit
		settings.Levels = opts.rescheduling.Levels
		p.gpuFit, err = admissioncheck.New(ctx, admissioncheck.Dependencies{
			NodeInformers: p.nodeInformers, Pods: p.gpuPods, Dynamic: clients.dynamic, Discovery: clients.discovery, Clock: clock,
		}, settings)
	}
	classes := p.clusterInformers.Scheduling().V1().PriorityClasses()
	return workloads.New(workloads.Dependencies{
		Client: clients.dynamic, Discovery: clients.discovery, Reviews: clients.kube.AuthorizationV1().SelfSubjectAccessReviews(),
		Clock: clock, Namespace: opts.namespace, Pods: opts.tasks.Pods,
		Classes: classes.Lister(), ClassesSynced: classes.Informer().HasSynced,
		Changed:    func(task cache.ObjectName) { p.controller.enqueue(task) },
		AllChanged: func() { p.controller.enqueueInKueue() },
	}), err
}
