// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/scheduler/binding"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

const (
	// requestsAtOnce is about how many Pods requests are made at a time.
	requestsAtOnce = 64
	// period is how often to check whether the informers have caught up.
	period = 20 * time.Millisecond
	// longestLookPause bounds the pause between two looks at the API server for Pods that the informers don't show.
	longestLookPause = time.Second
	// listRetryPeriod is how long to wait after a list that failed.
	listRetryPeriod = time.Second
)

// Leader reports whether this process may act for the scheduler.
type Leader interface {
	// Acquired returns a channel that is closed when this process becomes the leader.
	Acquired() <-chan struct{}
	// Leads reports whether it is the leader at this moment.
	Leads() bool
}

// Mirror is the cluster that is planned for.
type Mirror interface {
	// Shows reports whether the last snapshot had a Pod on a node, and Has whether it had the node.
	Shows(uid types.UID, node string) bool
	Has(node string) bool
}

// Sources are what a Term knows the cluster from, and writes with.
type Sources struct {
	Client   kubernetes.Interface
	Events   events.EventRecorderLogger
	Clock    clock.Clock
	Logger   klog.Logger
	Leader   Leader
	Fencer   *binding.Fencer
	Registry *gangs.Registry
	Mirror   Mirror
	// Do carries out what follows for gangs.
	Do func(gangs.Actions)
	// CountForeign counts the Pods that others have bound meanwhile.
	CountForeign func()
}

// Term is the time in which this process acts for the scheduler: it leads, and knows what its predecessors have begun.
// IsCurrent is for scheduling cycles; the other methods may be called at any time.
type Term struct {
	sources Sources
	// progress is what beginning waits for.
	progress progress
	// unseen are Pods that ran when the term began, and that no snapshot has shown yet; nil before that was asked. It
	// is only used in scheduling cycles.
	unseen map[types.UID]string
	// current is true once the term has begun and the snapshots show all earlier Bindings.
	current atomic.Bool
	// foreign are other processes that bind Pods.
	foreign foreignSchedulers
}

// NewTerm returns a Term that has not begun.
func NewTerm(sources Sources) *Term { return &Term{sources: sources} }

// Begin waits until this process is the leader, and makes sure that nothing that its
// predecessors began can take effect unnoticed. Only then does it start the registry, so that Pods with GPUs are
// queued. It returns false if ctx ends first.
//
// A predecessor may have been killed, or may hang, with Bindings in flight. So all Pods
// without a node are fenced, from a list made after this process became the leader: a
// predecessor binds no later version of a Pod, as it checks that it still leads after it
// has read the version. Once the informers show what became of each of them, they show
// all Bindings that took effect before.
func (t *Term) Begin(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-t.sources.Leader.Acquired():
	}
	begin := t.sources.Clock.Now()
	t.progress.begin(begin)
	defer t.progress.end()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go t.report(ctx)
	pods, err := t.pendingPods(ctx)
	if err != nil {
		return false
	}
	fenced := t.fence(ctx, pods)
	if ctx.Err() != nil || t.awaitInformers(ctx, fenced) != nil {
		return false
	}
	t.sources.Do(t.sources.Registry.Start())
	t.sources.Logger.Info("Took over from any scheduler before this one", "instance", t.sources.Fencer.Instance(), "pendingPods", len(pods), "after", t.sources.Clock.Since(begin))
	return true
}

// pendingPods returns the Pods for which a predecessor may have sent Bindings, as the API
// server knows them now.
func (t *Term) pendingPods(ctx context.Context) ([]*corev1.Pod, error) {
	t.progress.await("the API server to list the Pods without a node", nil)
	for {
		// Without a resource version the list is at least as recent as the request.
		list, err := t.sources.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", "").String(),
		})
		if err == nil {
			return t.bindable(list.Items), nil
		}
		t.sources.Logger.Error(err, "Listing pending Pods failed; nothing is scheduled until it succeeds")
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-t.sources.Clock.After(listRetryPeriod):
		}
	}
}

// bindable returns the Pods that this scheduler, and so its predecessors, would bind. No
// Binding is accepted for Pods that are being deleted or have scheduling gates, and those that have ended
// are shown by no informer of a scheduler.
func (t *Term) bindable(all []corev1.Pod) []*corev1.Pod {
	var pods []*corev1.Pod
	for i := range all {
		pod := &all[i]
		if pod.Spec.NodeName == "" && !podfacts.Ended(pod) && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0 &&
			t.sources.Registry.Concerns(pod) && t.sources.Registry.Serves(pod.Spec.SchedulerName) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// fence fences Pods and returns them, without those for which it was refused.
func (t *Term) fence(ctx context.Context, pods []*corev1.Pod) []*corev1.Pod {
	t.progress.await("the API server to mark", pods)
	refused := make([]bool, len(pods))
	eachOf(pods, func(i int, pod *corev1.Pod) {
		_, err := t.sources.Fencer.Fence(ctx, pod)
		if refused[i] = err != nil && !errors.Is(err, binding.ErrGone); refused[i] && ctx.Err() == nil {
			t.sources.Logger.Error(err, "A Pod could not be fenced; assuming that no Binding of an earlier scheduler is still in flight", "pod", klog.KObj(pod))
		}
		t.progress.settle(pod)
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
func (t *Term) awaitInformers(ctx context.Context, pods []*corev1.Pod) error {
	pods = slices.Clone(pods)
	t.progress.await("its cache to show", pods)
	pause, lookAt := period, t.sources.Clock.Now()
	for {
		pods = t.without(pods, t.isObserved)
		if now := t.sources.Clock.Now(); len(pods) > 0 && !now.Before(lookAt) {
			pods = t.stillToCome(ctx, pods)
			pause = min(2*pause, longestLookPause)
			lookAt = now.Add(pause)
		}
		if len(pods) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.sources.Clock.After(period):
		}
	}
}

// without returns Pods without those that are no longer awaited.
func (t *Term) without(pods []*corev1.Pod, settled func(*corev1.Pod) bool) []*corev1.Pod {
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool {
		if !settled(pod) {
			return false
		}
		t.progress.settle(pod)
		return true
	})
}

// isObserved reports whether the registry has observed a Pod since it was listed: it has the mark of this process,
// or a node.
func (t *Term) isObserved(pod *corev1.Pod) bool {
	member := t.sources.Registry.Member(pod.UID)
	if member == nil {
		return false
	}
	known := member.Pod()
	return known.Spec.NodeName != "" || binding.InstanceOf(known) == t.sources.Fencer.Instance()
}

// stillToCome returns those of some Pods that the informers have yet to show, by what the API server knows of them.
func (t *Term) stillToCome(ctx context.Context, pods []*corev1.Pod) []*corev1.Pod {
	var mu sync.Mutex
	comes := make(map[types.UID]bool, len(pods))
	eachOf(pods, func(_ int, pod *corev1.Pod) {
		live, err := t.sources.Fencer.Look(ctx, pod)
		mu.Lock()
		defer mu.Unlock()
		comes[pod.UID] = err == nil && t.willCome(live)
	})
	return t.without(pods, func(pod *corev1.Pod) bool { return !comes[pod.UID] })
}

// willCome reports whether the registry is yet to get a Pod as it is now.
func (t *Term) willCome(live *corev1.Pod) bool {
	if podfacts.Ended(live) || !t.sources.Registry.Concerns(live) {
		return false // the informers don't show Pods that have ended, and the registry has only those that it handles
	}
	member := t.sources.Registry.Member(live.UID)
	// Somebody may have removed the mark since.
	return member == nil || live.Spec.NodeName != "" || member.Pod().ResourceVersion != live.ResourceVersion
}

// IsCurrent reports whether the snapshots of kube-scheduler's cache show all Bindings from before this term. Its cache
// and our registry get Pods from one informer, but independently of each other. The mirror has just been refreshed.
func (t *Term) IsCurrent() bool {
	if t.current.Load() {
		return true
	}
	if t.unseen == nil { // no Pod is queued before the term has begun: all such Bindings are known
		t.unseen = t.sources.Registry.Bound()
	}
	for uid, node := range t.unseen {
		if !t.sources.Mirror.Shows(uid, node) && t.sources.Registry.Member(uid) != nil {
			return false
		}
		delete(t.unseen, uid)
	}
	t.unseen = nil
	t.current.Store(true)
	return true
}

// WasCurrent reports whether IsCurrent was true before.
func (t *Term) WasCurrent() bool { return t.current.Load() }

// MayAct reports whether this process may remove Pods from their nodes: it leads, and knows what runs.
func (t *Term) MayAct() bool { return t.current.Load() && t.Leads() }

// Leads reports whether this process is the leader at this moment.
func (t *Term) Leads() bool { return t.sources.Leader.Leads() }
