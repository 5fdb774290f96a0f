// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/kueue"
	"falldio.github.io/gpu-controller/workloads"
)

// enqueueInKueue enqueues the tasks that are submitted to a queue of Kueue.
func (c *Controller) enqueueInKueue() {
	for _, object := range c.taskIndex.List() {
		if task, ok := object.(*v1.GPUTask); ok && kueue.QueueOf(task) != "" {
			c.enqueue(cache.MetaObjectToName(task))
		}
	}
}

// newAdmissions returns what submits tasks to Kueue, where that is installed. It has changed called for a task
// whose admission has changed, and allChanged if those of all may have.
func newAdmissions(deps *dependencies, opts *options, changed func(task cache.ObjectName), allChanged func()) admissions {
	classes := deps.clusterInformers.Scheduling().V1().PriorityClasses()
	return workloads.New(workloads.Dependencies{
		Client:        deps.clients.dynamic,
		Discovery:     deps.clients.discovery,
		Reviews:       deps.clients.kube.AuthorizationV1().SelfSubjectAccessReviews(),
		Clock:         deps.clock,
		Namespace:     opts.namespace,
		Pods:          opts.tasks.Pods,
		Classes:       classes.Lister(),
		ClassesSynced: func() bool { return deps.clients.unreadable.causes || classes.Informer().HasSynced() },
		Changed:       changed,
		AllChanged:    allChanged,
	})
}
