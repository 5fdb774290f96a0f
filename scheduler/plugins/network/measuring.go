// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
	"falldio.github.io/gpu-controller/scheduler/plugins/network/prober"
	"falldio.github.io/gpu-controller/scheduler/plugins/network/wanted"
)

// measuring is what all profiles of a process share: the wanted targets and the
// estimates.
type measuring struct {
	args      *Args
	wanted    *wanted.List
	estimator *estimate.Estimator
}

func newMeasuring(args *Args, c clock.PassiveClock) *measuring {
	return &measuring{
		args:      args,
		wanted:    wanted.New(wanted.Config{Clock: c, Max: args.MaxTargets, Remember: seconds(args.RememberSeconds)}),
		estimator: estimate.New(estimate.Config{Clock: c, HalfLife: seconds(args.HalfLifeSeconds), Expiry: seconds(args.ExpirySeconds)}),
	}
}

// start watches the Pods and measures the targets they want until ctx ends.
func (m *measuring) start(ctx context.Context, handle fwk.Handle, c clock.Clock, register func(metrics.StableCollector) error) error {
	counts := newCollector(m)
	if err := register(counts); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	core := handle.SharedInformerFactory().Core().V1()
	if _, err := core.Pods().Informer().AddEventHandler(m.podHandler()); err != nil {
		return fmt.Errorf("following the Pods: %w", err)
	}
	nodes := core.Nodes()
	synced, lister := nodes.Informer().HasSynced, nodes.Lister()
	agentProber := prober.New(prober.Config{
		Clock:  c,
		Nodes:  func() ([]*corev1.Node, error) { return lister.List(labels.Everything()) },
		Wanted: m.wanted, Estimator: m.estimator, Count: counts.count,
		Port: m.args.Port, Parallelism: m.args.Parallelism,
		Period: seconds(m.args.PeriodSeconds), Timeout: milliseconds(m.args.TimeoutMilliseconds),
	})
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), synced) {
			agentProber.Run(ctx)
		}
	}()
	return nil
}

// podHandler records the targets of Pods as soon as they exist, so that values are there
// when their turn comes.
func (m *measuring) podHandler() cache.ResourceEventHandler {
	observe := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok {
			m.observe(pod)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    observe,
		UpdateFunc: func(_, object any) { observe(object) },
		DeleteFunc: func(object any) {
			if pod, ok := informer.LastKnown(object).(*corev1.Pod); ok {
				m.wanted.Gone(pod.UID)
			}
		},
	}
}

func (m *measuring) observe(pod *corev1.Pod) {
	question, wants := m.args.question(pod)
	if wants && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
		m.wanted.Pending(pod.Namespace, pod.UID, question)
		return
	}
	m.wanted.Gone(pod.UID)
}
