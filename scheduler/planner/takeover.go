// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/scheduler/binding"
)

const (
	// fencesAtOnce is how many Pods are fenced at a time.
	fencesAtOnce = 64
	// takeOverPeriod is how often to check whether the informers have caught up.
	takeOverPeriod = 20 * time.Millisecond
	// listRetryPeriod is how long to wait after a list that failed.
	listRetryPeriod = time.Second
)

// takeOver waits until this process is the leader, and makes sure that nothing that its
// predecessors began can take effect unnoticed. Only then are Pods with GPUs queued. It
// returns false if ctx ends first.
//
// A predecessor may have been killed, or may hang, with Bindings in flight. So all Pods
// without a node are fenced, from a list made after this process became the leader: a
// predecessor binds no later version of a Pod, as it checks that it still leads after it
// has read the version. Once the informers show what became of each of them, they show
// all Bindings that took effect before.
func (p *Planner) takeOver(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-p.leader.Acquired():
	}
	begin := p.clock.Now()
	pods, err := p.pendingPods(ctx)
	if err != nil {
		return false
	}
	fenced := p.fence(ctx, pods)
	if ctx.Err() != nil || p.awaitInformers(ctx, fenced) != nil {
		return false
	}
	p.logger.Info("Took over from any scheduler before this one", "instance", p.fencer.Instance(), "pendingPods", len(pods), "after", p.clock.Since(begin))
	p.do(p.registry.Start())
	return true
}

// pendingPods returns the Pods for which a predecessor may have sent Bindings, as the API
// server knows them now.
func (p *Planner) pendingPods(ctx context.Context) ([]*corev1.Pod, error) {
	for {
		// Without a resource version the list is at least as recent as the request.
		list, err := p.handle.ClientSet().CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", "").String(),
		})
		if err == nil {
			return p.bindable(list.Items), nil
		}
		p.logger.Error(err, "Listing pending Pods failed; nothing is scheduled until it succeeds")
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.clock.After(listRetryPeriod):
		}
	}
}

// bindable returns the Pods that this scheduler, and so its predecessors, would bind. No
// Binding is accepted for Pods that are being deleted or have scheduling gates.
func (p *Planner) bindable(all []corev1.Pod) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range all {
		pod := &all[i]
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
			p.registry.Concerns(pod) && p.registry.Serves(pod.Spec.SchedulerName) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// fence fences Pods and returns them, without those for which it was refused.
func (p *Planner) fence(ctx context.Context, pods []*corev1.Pod) []*corev1.Pod {
	var group errgroup.Group
	group.SetLimit(fencesAtOnce)
	refused := make([]bool, len(pods))
	for i, pod := range pods {
		group.Go(func() error {
			_, err := p.fencer.Fence(ctx, pod)
			if refused[i] = err != nil && !errors.Is(err, binding.ErrGone); refused[i] && ctx.Err() == nil {
				p.logger.Error(err, "A Pod could not be fenced; assuming that no Binding of an earlier scheduler is still in flight", "pod", klog.KObj(pod))
			}
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	var fenced []*corev1.Pod
	for i, pod := range pods {
		if !refused[i] {
			fenced = append(fenced, pod)
		}
	}
	return fenced
}

// awaitInformers waits until the informers show what became of the fenced Pods.
func (p *Planner) awaitInformers(ctx context.Context, pods []*corev1.Pod) error {
	for _, pod := range pods {
		for !p.isObserved(ctx, pod) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-p.clock.After(takeOverPeriod):
			}
		}
	}
	return nil
}

// isObserved reports whether the registry has observed a Pod since it was listed: it has
// the mark of this process, or a node, or is gone.
func (p *Planner) isObserved(ctx context.Context, pod *corev1.Pod) bool {
	member := p.registry.Member(pod.UID)
	if member == nil {
		_, err := p.fencer.Look(ctx, pod)
		return err != nil // otherwise the informer has not delivered it yet
	}
	known := member.Pod()
	return known.Spec.NodeName != "" || binding.InstanceOf(known) == p.fencer.Instance()
}

// isCurrent reports whether the snapshots of kube-scheduler's cache show all Bindings
// from before this process took over. Its cache and our registry get Pods from one
// informer, but independently of each other. The mirror has just been refreshed.
func (p *Planner) isCurrent() bool {
	if p.current.Load() {
		return true
	}
	if p.unseen == nil { // no Pod is queued before this process has taken over: all such Bindings are known
		p.unseen = p.registry.Bound()
	}
	for uid, node := range p.unseen {
		if !p.mirror.Shows(uid, node) && p.registry.Member(uid) != nil {
			return false
		}
		delete(p.unseen, uid)
	}
	p.unseen = nil
	p.current.Store(true)
	return true
}

// mayAct reports whether this process may remove Pods from their nodes: it leads, and
// knows what runs.
func (p *Planner) mayAct() bool { return p.current.Load() && p.leader.Leads() }

// waitUntilCurrent requeues a Pod after a moment.
func (p *Planner) waitUntilCurrent(pod *corev1.Pod) Decision {
	if member := p.registry.Member(pod.UID); member != nil {
		now := p.clock.Now()
		soon := now.Add(shortestPause)
		p.registry.FailUntil(member.Group(), now, soon, soon)
	}
	return Decision{Waits: "the scheduler has just started and does not know yet what is running"}
}
