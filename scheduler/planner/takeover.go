// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/scheduler/binding"
)

const (
	// requestsAtOnce is about how many Pods requests are made at a time.
	requestsAtOnce = 64
	// takeOverPeriod is how often to check whether the informers have caught up.
	takeOverPeriod = 20 * time.Millisecond
	// longestLookPause bounds the pause between two looks at the API server for Pods that the informers don't show.
	longestLookPause = time.Second
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
	p.takeover.begin(begin)
	defer p.takeover.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go p.reportTakeover(ctx)
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
	p.takeover.await("the API server to list the Pods without a node", nil)
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
// Binding is accepted for Pods that are being deleted or have scheduling gates, and those that have ended
// are shown by no informer of a scheduler.
func (p *Planner) bindable(all []corev1.Pod) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range all {
		pod := &all[i]
		if pod.Spec.NodeName == "" && !podfacts.Ended(pod) && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
			p.registry.Concerns(pod) && p.registry.Serves(pod.Spec.SchedulerName) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// fence fences Pods and returns them, without those for which it was refused.
func (p *Planner) fence(ctx context.Context, pods []*corev1.Pod) []*corev1.Pod {
	p.takeover.await("the API server to mark", pods)
	refused := make([]bool, len(pods))
	eachOf(pods, func(i int, pod *corev1.Pod) {
		_, err := p.fencer.Fence(ctx, pod)
		if refused[i] = err != nil && !errors.Is(err, binding.ErrGone); refused[i] && ctx.Err() == nil {
			p.logger.Error(err, "A Pod could not be fenced; assuming that no Binding of an earlier scheduler is still in flight", "pod", klog.KObj(pod))
		}
		p.takeover.settle(pod)
	})
	var fenced []*corev1.Pod
	for i, pod := range pods {
		if !refused[i] {
			fenced = append(fenced, pod)
		}
	}
	return fenced
}

// eachOf calls a function that makes a request for each Pod, for several at a time.
func eachOf(pods []*corev1.Pod, request func(i int, pod *corev1.Pod)) {
	var group errgroup.Group
	group.SetLimit(requestsAtOnce)
	for i, pod := range pods {
		group.Go(func() error {
			request(i, pod)
			return nil
		})
	}
	_ = group.Wait() // none returns an error
}

// awaitInformers waits until the informers show what became of the fenced Pods, but not for Pods that they will
// never show: the API server is asked about those that don't come.
func (p *Planner) awaitInformers(ctx context.Context, pods []*corev1.Pod) error {
	pods = slices.Clone(pods)
	p.takeover.await("its cache to show", pods)
	pause, lookAt := takeOverPeriod, p.clock.Now()
	for {
		pods = p.without(pods, p.isObserved)
		if now := p.clock.Now(); len(pods) > 0 && !now.Before(lookAt) {
			pods = p.stillToCome(ctx, pods)
			pause = min(2*pause, longestLookPause)
			lookAt = now.Add(pause)
		}
		if len(pods) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.clock.After(takeOverPeriod):
		}
	}
}

// without returns Pods without those that are no longer awaited.
func (p *Planner) without(pods []*corev1.Pod, settled func(*corev1.Pod) bool) []*corev1.Pod {
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		if !settled(pod) {
			return false
		}
		p.takeover.settle(pod)
		return true
	})
}

// isObserved reports whether the registry has observed a Pod since it was listed: it has the mark of this process,
// or a node.
func (p *Planner) isObserved(pod *corev1.Pod) bool {
	member := p.registry.Member(pod.UID)
	if member == nil {
		return false
	}
	known := member.Pod()
	return known.Spec.NodeName != "" || binding.InstanceOf(known) == p.fencer.Instance()
}

// stillToCome returns those of some Pods that the informers have yet to show, by what the API server knows of them.
func (p *Planner) stillToCome(ctx context.Context, pods []*corev1.Pod) []*corev1.Pod {
	var mu sync.Mutex
	comes := make(map[types.UID]bool, len(pods))
	eachOf(pods, func(_ int, pod *corev1.Pod) {
		live, err := p.fencer.Look(ctx, pod)
		mu.Lock()
		defer mu.Unlock()
		comes[pod.UID] = err == nil && p.willCome(live)
	})
	return p.without(pods, func(pod *corev1.Pod) bool { return !comes[pod.UID] })
}

// willCome reports whether the registry is yet to get a Pod as it is now.
func (p *Planner) willCome(live *corev1.Pod) bool {
	if podfacts.Ended(live) || !p.registry.Concerns(live) {
		return false // the informers don't show Pods that have ended, and the registry has only those that it handles
	}
	member := p.registry.Member(live.UID)
	// Somebody may have removed the mark since.
	return member == nil || live.Spec.NodeName != "" || member.Pod().ResourceVersion != live.ResourceVersion
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
