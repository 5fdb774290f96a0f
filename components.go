// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/accounting"
	"falldio.github.io/gpu-controller/admissioncheck"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/program"
	"falldio.github.io/gpu-controller/queues"
	"falldio.github.io/gpu-controller/remediation"
	"falldio.github.io/gpu-controller/rescheduler"
)

// components returns all components.
func (o *options) components() []component {
	wholeCluster := o.namespace == "" // queues, usage and Nodes are those of the whole cluster
	return []component{
		{&o.rescheduling, o.rescheduling.Period > 0, (*process).newRescheduler},
		{&o.gpuFit, o.gpuFit.Enabled, (*process).newAdmissionCheck},
		{&o.queues, wholeCluster, (*process).newAccountant},
		{&o.accounting, wholeCluster, (*process).newBookkeeper},
		{&o.remediation, wholeCluster, (*process).newRemediator},
	}
}

// flags returns all flags.
func (o *options) flags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("gpu-controller", pflag.ContinueOnError)
	flags.SortFlags = true
	o.addOwnFlags(flags)
	for _, component := range o.components() {
		component.options.AddFlags(flags)
	}
	return flags
}

// validate returns all that is wrong with the flags.
func (o *options) validate(args []string) error {
	var problems program.Problems
	require := problems.Require
	o.check(args, require)
	for _, component := range o.components() {
		component.options.Validate(require)
	}
	return errors.Join(problems...)
}

// newRescheduler returns what moves Pods.
func (p *process) newRescheduler(ctx context.Context, opts *options) (_ part, err error) {
	p.rescheduler, err = rescheduler.New(ctx, rescheduler.Dependencies{
		Kube:          p.clients.kube,
		Client:        p.clients.tasks,
		NodeInformers: p.nodeInformers,
		GPUTasks:      p.tasks,
		PodsOf:        p.podsOf,
		Pods:          p.gpuPods,
		MovePlans:     p.taskInformers.Falldio().V1().MovePlans(),
		Recorder:      p.recorder,
		Metrics:       p.metrics.registry,
		Evictions:     p.metrics.podsEvicted,
		Clock:         p.clock,
		Namespace:     opts.namespace,
		Queues:        p.queueTree,
		Factors:       func() map[string]float64 { return gpuqueue.Factors(p.queues.Queues()) },
		NamespaceOf:   p.namespace,
	}, opts.rescheduling)
	p.rescheduling = p.rescheduler
	return p.rescheduler, err
}

// newAccountant returns what writes the status of GPUQueues.
func (p *process) newAccountant(_ context.Context, opts *options) (part, error) {
	return queues.New(queues.Dependencies{
		Client:           p.clients.tasks,
		Queues:           p.queues,
		Pods:             p.gpuPods,
		NamespaceOf:      p.namespace,
		NamespacesSynced: p.clusterInformers.Core().V1().Namespaces().Informer().HasSynced,
		Recorder:         p.recorder,
		Metrics:          p.metrics.registry,
		Clock:            p.clock,
	}, opts.queues)
}

// newBookkeeper returns what writes how much GPU time was used.
func (p *process) newBookkeeper(_ context.Context, opts *options) (part, error) {
	return accounting.New(accounting.Dependencies{
		Kube:             p.clients.kube,
		Pods:             p.gpuPods,
		Tasks:            p.tasks,
		QueueTree:        p.queueTree,
		QueuesKnown:      p.queuesKnown,
		NamespaceOf:      p.namespace,
		NamespacesSynced: p.clusterInformers.Core().V1().Namespaces().Informer().HasSynced,
		Metrics:          p.metrics.registry,
		Clock:            p.clock,
	}, opts.accounting), nil
}

// newRemediator returns what taints Nodes with unhealthy GPUs, or removes such taints.
func (p *process) newRemediator(ctx context.Context, opts *options) (part, error) {
	return remediation.New(ctx, remediation.Dependencies{
		Kube:          p.clients.kube,
		NodeInformers: p.nodeInformers,
		Recorder:      p.recorder,
		Metrics:       p.metrics.registry,
		Clock:         p.clock,
	}, opts.remediation)
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
