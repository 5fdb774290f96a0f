// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/scheduler/gangs"
)

const (
	claimsMissing   = "waits until the resource claims of its Pods exist"
	claimsUnsettled = "waits until it is known what the resource claims of its Pods ask for"
	claimsStale     = "waits until GPUs are released that resource claims of its Pods still hold, as they could not be placed there"
	// releaseLimit bounds how long stale claims are being released.
	releaseLimit = 30 * time.Second
)

// Unprepared returns why a gang can't be planned yet because of its resource claims, or "".
//
// A scheduler that is killed, or fails to bind a Pod, after it has allocated devices to the Pod's
// claims leaves them allocated. kube-scheduler goes on from there, Pod by Pod. A gang is planned as
// a whole, so it might never fit beside what its own Pods hold: its claims are released first.
func (f *Follower) Unprepared(attempt *gangs.Attempt) string {
	if f.counter == nil {
		return ""
	}
	var stale []*resourcev1.ResourceClaim
	missing, unsettled := false, false
	for _, m := range attempt.Waiting {
		stale = append(stale, f.counter.Stale(m.Pod())...)
		missing = missing || f.counter.Missing(m.Pod())
		unsettled = unsettled || f.sources.Registry.ClaimsUnsettled(m)
	}
	switch {
	case len(stale) > 0:
		f.release(stale)
		return claimsStale
	case missing:
		return claimsMissing
	case unsettled:
		return claimsUnsettled
	}
	return ""
}

// Await has gangs woken when a claim has changed. What the Pods of this one ask for is looked at again: it may be known
// by now.
func (f *Follower) Await(attempt *gangs.Attempt) {
	f.awaited.Store(true)
	for _, m := range attempt.Waiting {
		if f.sources.Registry.ClaimsUnsettled(m) {
			f.observeAgain(cache.MetaObjectToName(m.Pod()).AsNamespacedName())
		}
	}
}

// release releases stale claims in the background, unless others are being released: then the
// next attempt does it.
func (f *Follower) release(claims []*resourcev1.ResourceClaim) {
	if !f.sources.Term.MayAct() || !f.releasing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer f.releasing.Store(false)
		ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), f.sources.Logger), releaseLimit)
		defer cancel()
		for _, claim := range claims {
			if err := f.releaseClaim(ctx, claim); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				f.sources.Logger.Error(err, "A resource claim that is out of use can't be released; trying again", "claim", klog.KObj(claim))
			}
		}
	}()
}

// releaseClaim releases a claim in exactly the version that was found to be stale: it has been
// written by nobody since.
func (f *Follower) releaseClaim(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	if !f.sources.Term.Leads() {
		return errors.New("this process no longer leads")
	}
	client, claim := f.sources.Client.ResourceV1().ResourceClaims(claim.Namespace), claim.DeepCopy()
	if claim.Status.Allocation != nil {
		claim.Status = resourcev1.ResourceClaimStatus{}
		released, err := client.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("releasing the devices: %w", err)
		}
		claim = released
	}
	if !IsOfExtendedResource(claim) {
		return nil
	}
	if kept := slices.DeleteFunc(slices.Clone(claim.Finalizers), func(name string) bool { return name == resourcev1.Finalizer }); len(kept) < len(claim.Finalizers) {
		claim.Finalizers = kept
		released, err := client.Update(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("removing the finalizer: %w", err)
		}
		claim = released
	}
	return client.Delete(ctx, claim.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &claim.UID, ResourceVersion: new(claim.ResourceVersion)},
	})
}
