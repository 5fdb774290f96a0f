// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// do carries actions out. It must not be called from PreEnqueue or a queueing
// hint, which hold the queue's lock.
func (p *Planner) do(actions gangs.Actions) {
	if len(actions.Release) > 0 {
		p.mirror.Release(actions.Release)
		p.wake() // what they held may be what others wait for
		p.admitTurnedAway()
	}
	for _, uid := range actions.Reject {
		if waiting := p.handle.GetWaitingPod(uid); waiting != nil {
			waiting.Reject(config.GangPlugin, "another Pod of the gang could not take its place")
		}
	}
	if len(actions.Reject) > 0 {
		p.metrics.aborted.Inc()
	}
	p.activate(actions.Activate)
	if actions.Due {
		p.activateDue()
	}
}

func (p *Planner) activate(pods []*corev1.Pod) {
	if len(pods) == 0 {
		return
	}
	named := make(map[string]*corev1.Pod, len(pods))
	for _, pod := range pods {
		named[pod.Namespace+"/"+pod.Name] = pod
	}
	p.handle.Activate(p.logger, named)
}

// activateDue queues the Pods whose turn has come.
func (p *Planner) activateDue() { p.activate(p.registry.Due(p.clock.Now(), maxRequeues)) }

// wake records that there may be more room than before.
func (p *Planner) wake() { p.registry.Wake(p.clock.Now()) }

// wakeAll records that nodes have changed, so that there may be room for what would never have fitted before.
func (p *Planner) wakeAll() { p.registry.WakeAll(p.clock.Now()) }

// RequeueLater records that seats, reservations, bookings or kept nodes have turned away a Pod that is not
// ours. It is requeued when they end, and from time to time.
func (p *Planner) RequeueLater(pod *corev1.Pod) { p.turnedAway.add(pod) }

func (p *Planner) admitTurnedAway() { p.activate(p.turnedAway.take()) }

// turnedAway are Pods that are not ours and that seats, reservations, bookings or kept nodes have turned away. Its zero
// value is empty.
type turnedAway struct {
	mu   sync.Mutex
	pods map[types.UID]*corev1.Pod
}

func (t *turnedAway) add(pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pods == nil {
		t.pods = map[types.UID]*corev1.Pod{}
	}
	t.pods[pod.UID] = pod
}

// take removes and returns all of them.
func (t *turnedAway) take() []*corev1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	pods := slices.Collect(maps.Values(t.pods))
	t.pods = nil
	return pods
}
