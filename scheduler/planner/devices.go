// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/scheduler/resourceclaims"
)

// watchDevices follows which GPUs resource claims hold. kube-scheduler watches these objects
// already. Without dynamic resource allocation there are none.
func (p *Planner) watchDevices(ctx context.Context) error {
	if p.handle.SharedDRAManager() == nil {
		return nil
	}
	informers := p.handle.SharedInformerFactory().Resource().V1()
	indexer := informers.ResourceClaims().Informer().GetIndexer()
	if err := indexer.AddIndexers(cache.Indexers{ownerIndex: ownersOf}); err != nil {
		return fmt.Errorf("indexing ResourceClaims: %w", err)
	}
	p.counter = resourceclaims.NewCounter(resourceclaims.Objects{
		Claim: func(namespace, name string) (*resourcev1.ResourceClaim, error) {
			return informers.ResourceClaims().Lister().ResourceClaims(namespace).Get(name)
		},
		Class: informers.DeviceClasses().Lister().Get,
		Owned: func(pod types.UID) []*resourcev1.ResourceClaim { return owned(indexer, pod) },
	})
	p.registry.CountClaims(p.counter.GPUs)
	options := cache.HandlerOptions{Logger: &p.logger}
	sliceEvents, errSlices := informers.ResourceSlices().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.sliceChanged(nil, object) },
		UpdateFunc: p.sliceChanged,
		DeleteFunc: func(object any) { p.sliceChanged(informer.LastKnown(object), nil) },
	}, options)
	claimEvents, errClaims := informers.ResourceClaims().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { p.resourceClaimChanged(nil, object) },
		UpdateFunc: p.resourceClaimChanged,
		DeleteFunc: func(object any) { p.resourceClaimChanged(informer.LastKnown(object), nil) },
	}, options)
	classEvents, errClasses := informers.DeviceClasses().Informer().AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    p.classChanged,
		UpdateFunc: func(_, object any) { p.classChanged(object) },
		DeleteFunc: func(object any) { p.classChanged(informer.LastKnown(object)) },
	}, options)
	if err := errors.Join(errSlices, errClaims, errClasses); err != nil {
		return fmt.Errorf("watching ResourceSlices, ResourceClaims and DeviceClasses: %w", err)
	}
	p.synced = append(p.synced, sliceEvents.HasSynced, claimEvents.HasSynced, classEvents.HasSynced)
	go p.followSelections(ctx)
	return nil
}

// followSelections finds out which GPUs Pods ask for with their claims, and what changes that, until ctx ends. Looking at the
// devices of a large cluster takes long: neither the scheduling cycle nor events wait for it.
func (p *Planner) followSelections(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.counter.Due():
			p.resolveSelections(ctx)
		}
	}
}

// resolveSelections does what is due.
func (p *Planner) resolveSelections(ctx context.Context) {
	resolved := p.counter.Resolve(ctx)
	if len(resolved) > 0 {
		defer p.claimsSettle()
	}
	for _, name := range resolved {
		pod := p.observeAgain(name)
		if pod != nil && pod.Spec.NodeName == "" && !podfacts.Ended(pod) && p.registry.Member(pod.UID) == nil {
			p.activate([]*corev1.Pod{pod}) // it is kube-scheduler's alone
		}
	}
}

// observeAgain records a Pod, which may ask for other GPUs with its claims although it is the same, and returns it as it is now; nil if there
// is none of this name. Meanwhile it may change, go, or be replaced by another one of its name, and the events of that be handled before an
// older Pod is recorded here. So this ends when what was recorded is what the informer has: the events of all later changes come later.
func (p *Planner) observeAgain(name types.NamespacedName) *corev1.Pod {
	recorded := p.podNamed(name)
	p.observe(name, recorded)
	for {
		current := p.podNamed(name)
		if current == recorded {
			return current
		}
		if recorded != nil && (current == nil || current.UID != recorded.UID) {
			p.forgetPod(recorded)
		}
		p.observe(name, current)
		recorded = current
	}
}

// observe records a Pod, and what its claims select; nil if there is none of this name.
func (p *Planner) observe(name types.NamespacedName, pod *corev1.Pod) {
	if pod == nil {
		p.counter.Forget(name)
		return
	}
	p.followClaims(pod)
	p.do(p.registry.Observe(pod))
}

// podNamed returns a Pod as the informer has it; nil if there is none.
func (p *Planner) podNamed(name types.NamespacedName) *corev1.Pod {
	pod, err := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return nil
	}
	return pod
}

// followClaims has what the claims of a Pod select found out as long as it has no node.
func (p *Planner) followClaims(pod *corev1.Pod) {
	if p.counter == nil || len(pod.Spec.ResourceClaims) == 0 {
		return
	}
	if pod.Spec.NodeName != "" || podfacts.Ended(pod) {
		p.forgetClaims(pod)
		return
	}
	p.counter.Follow(pod)
}

func (p *Planner) forgetClaims(pod *corev1.Pod) {
	if p.counter != nil && len(pod.Spec.ResourceClaims) > 0 {
		p.counter.Forget(cache.MetaObjectToName(pod).AsNamespacedName())
	}
}

func (p *Planner) classChanged(object any) {
	if class, ok := object.(*resourcev1.DeviceClass); ok {
		p.counter.ClassChanged(class.Name)
	}
}

func (p *Planner) sliceChanged(before, after any) {
	was, _ := before.(*resourcev1.ResourceSlice)
	is, _ := after.(*resourcev1.ResourceSlice)
	p.counter.SliceChanged(was, is)
	if p.devices.SliceChanged(was, is, p.clock.Now()) {
		p.wakeAll()
	}
}

func (p *Planner) resourceClaimChanged(before, after any) {
	was, _ := before.(*resourcev1.ResourceClaim)
	is, _ := after.(*resourcev1.ResourceClaim)
	if p.devices.ClaimChanged(was, is, p.clock.Now()) || is == nil {
		p.wake()
	}
	defer p.claimsSettle()
	if owner := ownerOf(is); owner != nil {
		name := types.NamespacedName{Namespace: is.Namespace, Name: owner.Name}
		if pod := p.podNamed(name); pod != nil && pod.UID == owner.UID && pod.Spec.NodeName == "" {
			p.observeAgain(name)
		}
	}
}

// claimsSettle wakes gangs that wait until their claims exist, are known, or are released, if there are any: there may be no GPUs
// among what the claims ask for, so that nothing else says so.
func (p *Planner) claimsSettle() {
	if p.awaitClaims.CompareAndSwap(true, false) {
		p.wake()
	}
}

// hasAllocation reports whether devices may be allocated to any resource claim of a Pod.
func (p *Planner) hasAllocation(pod *corev1.Pod) bool {
	return p.counter == nil || p.counter.HasAllocation(pod)
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

// DevicesReserved records that a Pod may have been given devices.
func (p *Planner) DevicesReserved(pod *corev1.Pod) { p.devices.Reserved(pod, p.clock.Now()) }

// DevicesReleased records that a Pod may lose the devices that it was given: it was not bound.
func (p *Planner) DevicesReleased(pod *corev1.Pod) {
	if p.devices.Reserved(pod, p.clock.Now()) {
		p.wake()
	}
}

// ClaimAllocated records that devices are allocated to a claim, of which the API server is not told yet.
func (p *Planner) ClaimAllocated(claim *resourcev1.ResourceClaim) { p.devices.Allocated(claim) }

// ClaimSettled records that what ClaimAllocated has recorded no longer counts.
func (p *Planner) ClaimSettled(claim types.UID) { p.devices.Settled(claim) }

// ClaimAssumed records that kube-scheduler's view of a claim has changed before the informer has told of it.
func (p *Planner) ClaimAssumed(namespace, name string) {
	p.devices.Assumed(namespace, name, p.clock.Now())
}

// refresh makes the mirror equal to the snapshot with these nodes, and to the devices that
// are allocated.
func (p *Planner) refresh(nodes []fwk.NodeInfo) {
	if manager := p.handle.SharedDRAManager(); manager != nil {
		p.refreshDevices(manager.ResourceClaims())
	}
	p.mirror.Refresh(nodes)
}

func (p *Planner) refreshDevices(claims fwk.ResourceClaimTracker) {
	if published := p.devices.Published(); published != nil {
		p.mirror.SetPublished(published)
	}
	held, err := p.devices.Held(claims, p.clock.Now())
	if err != nil {
		p.logger.Error(err, "Which GPUs resource claims hold is not known; those that they held before count")
	}
	if len(held.Nodes) == 0 && len(held.Pods) == 0 {
		return
	}
	changed, released := p.mirror.SetDevices(held.Nodes, held.Pods)
	for _, node := range changed {
		p.capacity.DevicesChanged(node, held.Nodes[node])
	}
	if released {
		p.wake()
	}
}

// PlannedDevices returns the GPUs that a Pod gets by a Decision, as far as it gets them by resource
// claims: its own, or those that kube-scheduler makes for extended resources. If its profile
// chooses the node, these are the GPUs that it would get on each node.
func (p *Planner) PlannedDevices(pod *corev1.Pod, decision *Decision) resourceclaims.Places {
	places := resourceclaims.Places{}
	if decision.Node != "" {
		if node, uuids := p.mirror.CardsOverClaims(pod.UID); node == decision.Node {
			places[node] = sets.New(uuids...)
		}
		return places
	}
	attempt := p.registry.Attempt(pod.UID)
	if attempt == nil {
		return places
	}
	for node := range decision.Order {
		place, fits := p.placeOn(attempt, node, nil)
		if !fits {
			continue
		}
		if uuids := p.mirror.NamesOverClaims(node, &place.Use); len(uuids) > 0 {
			places[node] = sets.New(uuids...)
		}
	}
	return places
}

// SeatedDevices returns the GPUs that are kept for Pods which are being scheduled, as far as Pods
// get them by resource claims.
func (p *Planner) SeatedDevices() resourceclaims.Places {
	places := resourceclaims.Places{}
	for node, uuids := range p.mirror.SeatedOverClaims() {
		places[node] = sets.New(uuids...)
	}
	return places
}
