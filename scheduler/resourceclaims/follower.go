// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Term is the time in which this process acts for the scheduler.
type Term interface {
	// MayAct reports whether it does, and Leads whether it is the leader.
	MayAct() bool
	Leads() bool
}

// Sources are what a Follower knows the cluster from, and whom it tells.
type Sources struct {
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	// Manager is kube-scheduler's view of claims; nil without dynamic resource allocation.
	Manager  fwk.SharedDRAManager
	Clock    clock.PassiveClock
	Logger   klog.Logger
	Term     Term
	Registry *gangs.Registry
	// Do carries out what follows for gangs from what a Pod asks for, and Forget records that a Pod is gone.
	Do     func(gangs.Actions)
	Forget func(*corev1.Pod)
	// Activate has Pods that wait tried again. Wake has those tried for which there may be room now, and WakeAll those,
	// too, for which there never was.
	Activate      func([]*corev1.Pod)
	Wake, WakeAll func()
}

// Follower follows what is asked for and given out by dynamic resource allocation: which GPUs claims hold, how many
// Pods ask for, and whether the claims of a gang are ready for a plan. Without dynamic resource allocation there is
// nothing to follow. It is safe for concurrent use.
type Follower struct {
	sources Sources
	// tracker has the GPUs that claims hold. counter counts those that Pods ask for; nil without dynamic resource
	// allocation.
	tracker *Tracker
	counter *Counter
	// releasing is true while claims are being released.
	releasing atomic.Bool
	// awaited is true if a gang waits for its claims.
	awaited atomic.Bool
}

// NewFollower returns a Follower that knows no objects. Settle is how long it usually takes until kube-scheduler's own
// view shows what an informer has delivered.
func NewFollower(sources Sources, settle time.Duration) *Follower {
	return &Follower{sources: sources, tracker: NewTracker(settle)}
}

// Watch follows the objects until ctx ends. kube-scheduler watches them already. It returns what reports whether all
// that existed before is known.
func (f *Follower) Watch(ctx context.Context) ([]cache.InformerSynced, error) {
	if f.sources.Manager == nil {
		return nil, nil
	}
	informers := f.sources.Informers.Resource().V1()
	indexer := informers.ResourceClaims().Informer().GetIndexer()
	if err := indexer.AddIndexers(cache.Indexers{ownerIndex: ownersOf}); err != nil {
		return nil, fmt.Errorf("indexing ResourceClaims: %w", err)
	}
	f.count(Objects{
		Claim: func(namespace, name string) (*resourcev1.ResourceClaim, error) {
			return informers.ResourceClaims().Lister().ResourceClaims(namespace).Get(name)
		},
		Class: informers.DeviceClasses().Lister().Get,
		Owned: func(pod types.UID) []*resourcev1.ResourceClaim { return owned(indexer, pod) },
	})
	options := cache.HandlerOptions{Logger: &f.sources.Logger}
	sliceEvents, errSlices := informers.ResourceSlices().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { f.sliceChanged(nil, object) },
		UpdateFunc: f.sliceChanged,
		DeleteFunc: func(object any) { f.sliceChanged(informer.LastKnown(object), nil) },
	}, options)
	claimEvents, errClaims := informers.ResourceClaims().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { f.resourceClaimChanged(nil, object) },
		UpdateFunc: f.resourceClaimChanged,
		DeleteFunc: func(object any) { f.resourceClaimChanged(informer.LastKnown(object), nil) },
	}, options)
	classEvents, errClasses := informers.DeviceClasses().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    f.classChanged,
		UpdateFunc: func(_, object any) { f.classChanged(object) },
		DeleteFunc: func(object any) { f.classChanged(informer.LastKnown(object)) },
	}, options)
	if err := errors.Join(errSlices, errClaims, errClasses); err != nil {
		return nil, fmt.Errorf("watching ResourceSlices, ResourceClaims and DeviceClasses: %w", err)
	}
	go f.followSelections(ctx)
	return []cache.InformerSynced{sliceEvents.HasSynced, claimEvents.HasSynced, classEvents.HasSynced}, nil
}

// count has the GPUs counted that Pods ask for.
func (f *Follower) count(objects Objects) {
	f.counter = NewCounter(objects)
	f.sources.Registry.CountClaims(f.counter.GPUs)
}

// followSelections finds out which GPUs Pods ask for with their claims, and what changes that, until ctx ends. Looking
// at the devices of a large cluster takes long: neither the scheduling cycle nor events wait for it.
func (f *Follower) followSelections(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.counter.Due():
			f.resolveSelections(ctx)
		}
	}
}

// resolveSelections does what is due.
func (f *Follower) resolveSelections(ctx context.Context) {
	resolved := f.counter.Resolve(ctx)
	if len(resolved) > 0 {
		defer f.claimsSettle()
	}
	for _, name := range resolved {
		pod := f.observeAgain(name)
		if pod != nil && pod.Spec.NodeName == "" && !podfacts.Ended(pod) && f.sources.Registry.Member(pod.UID) == nil {
			f.sources.Activate([]*corev1.Pod{pod}) // it is kube-scheduler's alone
		}
	}
}

// observeAgain records a Pod, which may ask for other GPUs with its claims although it is the same, and returns it as
// it is now; nil if there is none of this name. Meanwhile it may change, go, or be replaced by another one of its name,
// and the events of that be handled before an older Pod is recorded here. So this ends when what was recorded is what
// the informer has: the events of all later changes come later.
func (f *Follower) observeAgain(name types.NamespacedName) *corev1.Pod {
	recorded := f.podNamed(name)
	f.observe(name, recorded)
	for {
		current := f.podNamed(name)
		if current == recorded {
			return current
		}
		if recorded != nil && (current == nil || current.UID != recorded.UID) {
			f.sources.Forget(recorded)
		}
		f.observe(name, current)
		recorded = current
	}
}

// observe records a Pod, and what its claims select; nil if there is none of this name.
func (f *Follower) observe(name types.NamespacedName, pod *corev1.Pod) {
	if pod == nil {
		f.counter.Forget(name)
		return
	}
	f.PodChanged(pod)
	f.sources.Do(f.sources.Registry.Observe(pod))
}

// podNamed returns a Pod as the informer has it; nil if there is none.
func (f *Follower) podNamed(name types.NamespacedName) *corev1.Pod {
	pod, err := f.sources.Informers.Core().V1().Pods().Lister().Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return nil
	}
	return pod
}

// PodChanged has what the claims of a Pod select found out as long as it has no node.
func (f *Follower) PodChanged(pod *corev1.Pod) {
	if f.counter == nil || len(pod.Spec.ResourceClaims) == 0 {
		return
	}
	if pod.Spec.NodeName != "" || podfacts.Ended(pod) {
		f.PodGone(pod)
		return
	}
	f.counter.Follow(pod)
}

// PodGone records that a Pod is gone, or needs no GPUs any more.
func (f *Follower) PodGone(pod *corev1.Pod) {
	if f.counter != nil && len(pod.Spec.ResourceClaims) > 0 {
		f.counter.Forget(cache.MetaObjectToName(pod).AsNamespacedName())
	}
}

func (f *Follower) classChanged(object any) {
	if class, ok := object.(*resourcev1.DeviceClass); ok {
		f.counter.ClassChanged(class.Name)
	}
}

func (f *Follower) sliceChanged(before, after any) {
	was, _ := before.(*resourcev1.ResourceSlice)
	is, _ := after.(*resourcev1.ResourceSlice)
	f.counter.SliceChanged(was, is)
	if f.tracker.SliceChanged(was, is, f.sources.Clock.Now()) {
		f.sources.WakeAll()
	}
}

func (f *Follower) resourceClaimChanged(before, after any) {
	was, _ := before.(*resourcev1.ResourceClaim)
	is, _ := after.(*resourcev1.ResourceClaim)
	if f.tracker.ClaimChanged(was, is, f.sources.Clock.Now()) || is == nil {
		f.sources.Wake()
	}
	defer f.claimsSettle()
	if owner := ownerOf(is); owner != nil {
		name := types.NamespacedName{Namespace: is.Namespace, Name: owner.Name}
		if pod := f.podNamed(name); pod != nil && pod.UID == owner.UID && pod.Spec.NodeName == "" {
			f.observeAgain(name)
		}
	}
}

// claimsSettle wakes gangs that wait until their claims exist, are known, or are released, if there are any: there may
// be no GPUs among what the claims ask for, so that nothing else says so.
func (f *Follower) claimsSettle() {
	if f.awaited.CompareAndSwap(true, false) {
		f.sources.Wake()
	}
}

// HasAllocation reports whether devices may be allocated to any resource claim of a Pod.
func (f *Follower) HasAllocation(pod *corev1.Pod) bool {
	return f.counter == nil || f.counter.HasAllocation(pod)
}

// ownerIndex is the index of claims by the UID of the Pod that they were made for.
const ownerIndex = "falldio.com/pod"

func ownersOf(object any) ([]string, error) {
	claim, _ := object.(*resourcev1.ResourceClaim)
	if owner := ownerOf(claim); owner != nil {
		return []string{string(owner.UID)}, nil
	}
	return nil, nil
}

// owned returns the claims that were made for a Pod.
func owned(indexer cache.Indexer, pod types.UID) []*resourcev1.ResourceClaim {
	objects, err := indexer.ByIndex(ownerIndex, string(pod))
	if err != nil {
		return nil // can't happen: the index is there
	}
	claims := make([]*resourcev1.ResourceClaim, 0, len(objects))
	for _, object := range objects {
		if claim, ok := object.(*resourcev1.ResourceClaim); ok {
			claims = append(claims, claim)
		}
	}
	return claims
}

// ownerOf returns the Pod that a claim was made for; nil if there is none.
func ownerOf(claim *resourcev1.ResourceClaim) *metav1.OwnerReference {
	if claim == nil {
		return nil
	}
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.Kind != "Pod" {
		return nil
	}
	return owner
}

// Reserved records that a Pod may have been given devices.
func (f *Follower) Reserved(pod *corev1.Pod) { f.tracker.Reserved(pod, f.sources.Clock.Now()) }

// Unreserved records that a Pod may lose the devices that it was given: it was not bound.
func (f *Follower) Unreserved(pod *corev1.Pod) {
	if f.tracker.Reserved(pod, f.sources.Clock.Now()) {
		f.sources.Wake()
	}
}

// Allocated records that devices are allocated to a claim, of which the API server is not told yet.
func (f *Follower) Allocated(claim *resourcev1.ResourceClaim) { f.tracker.Allocated(claim) }

// Settled records that what Allocated has recorded no longer counts.
func (f *Follower) Settled(claim types.UID) { f.tracker.Settled(claim) }

// Assumed records that kube-scheduler's view of a claim has changed before the informer has told of it.
func (f *Follower) Assumed(namespace, name string) {
	f.tracker.Assumed(namespace, name, f.sources.Clock.Now())
}

// Mirror is the cluster that is planned for.
type Mirror interface {
	// SetPublished sets the GPUs that are published, by node, and SetDevices those that claims hold, by node and by
	// Pod, as far as they may have changed. It returns the nodes for which something has changed, and whether a GPU is
	// held no longer.
	SetPublished(changed map[string][]snapshot.PublishedGPU)
	SetDevices(held map[string][]string, ofPods map[types.UID][]string) (changed []string, released bool)
}

// Refresh makes a mirror equal to what is published and allocated, and tells of each node for which that changes
// anything.
func (f *Follower) Refresh(mirror Mirror, changed func(node string, uuids []string)) {
	if f.sources.Manager == nil {
		return
	}
	if published := f.tracker.Published(); published != nil {
		mirror.SetPublished(published)
	}
	held, err := f.tracker.Held(f.sources.Manager.ResourceClaims(), f.sources.Clock.Now())
	if err != nil {
		f.sources.Logger.Error(err, "Which GPUs resource claims hold is not known; those that they held before count")
	}
	if len(held.Nodes) == 0 && len(held.Pods) == 0 {
		return
	}
	nodes, released := mirror.SetDevices(held.Nodes, held.Pods)
	for _, node := range nodes {
		changed(node, held.Nodes[node])
	}
	if released {
		f.sources.Wake()
	}
}
