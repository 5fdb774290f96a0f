// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

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

	"falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/resourceclaims"
)

const (
	claimsMissing   = "waits until the resource claims of its Pods exist"
	claimsUnsettled = "waits until it is known what the resource claims of its Pods ask for"
	claimsStale     = "waits until GPUs are released that resource claims of its Pods still hold, as they could not be placed there"
	// releaseLimit bounds how long stale claims are being released.
	releaseLimit = 30 * time.Second
)

// unpreparedClaims returns why a gang can't be planned yet because of its resource claims, or "".
//
// A scheduler that is killed, or fails to bind a Pod, after it has allocated devices to the Pod's
// claims leaves them allocated. kube-scheduler goes on from there, Pod by Pod. A gang is planned as
// a whole, so it might never fit beside what its own Pods hold: its claims are released first.
func (p *Planner) unpreparedClaims(attempt *gangs.Attempt) string {
	if p.counter == nil {
		return ""
	}
	var stale []*resourcev1.ResourceClaim
	missing, unsettled := false, false
	for _, m := range attempt.Waiting {
		stale = append(stale, p.counter.Stale(m.Pod())...)
		missing = missing || p.counter.Missing(m.Pod())
		unsettled = unsettled || p.registry.ClaimsUnsettled(m)
	}
	switch {
	case len(stale) > 0:
		p.release(stale)
		return claimsStale
	case missing:
		return claimsMissing
	case unsettled:
		return claimsUnsettled
	}
	return ""
}

// waitForClaims has a gang tried again when a claim has changed, and after a while.
func (p *Planner) waitForClaims(attempt *gangs.Attempt, waits string) Decision {
	now := p.clock.Now()
	p.metrics.failed.WithLabelValues("Claims").Inc()
	p.registry.Fail(attempt.Group, now, now.Add(shortestPause))
	p.awaitClaims.Store(true)
	p.recordDecision(&search{attempt: attempt, begin: now}, journal.Waits, waits, nil)
	for _, m := range attempt.Waiting {
		if p.registry.ClaimsUnsettled(m) {
			p.observeAgain(cache.MetaObjectToName(m.Pod()).AsNamespacedName())
		}
	}
	return Decision{Waits: waits}
}

// release releases stale claims in the background, unless others are being released: then the
// next attempt does it.
func (p *Planner) release(claims []*resourcev1.ResourceClaim) {
	if !p.term.MayAct() || !p.releasing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer p.releasing.Store(false)
		ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), p.logger), releaseLimit)
		defer cancel()
		for _, claim := range claims {
			if err := p.releaseClaim(ctx, claim); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				p.logger.Error(err, "A resource claim that is out of use can't be released; trying again", "claim", klog.KObj(claim))
			}
		}
	}()
}

// releaseClaim releases a claim in exactly the version that was found to be stale: it has been
// written by nobody since.
func (p *Planner) releaseClaim(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	if !p.term.Leads() {
		return errors.New("this process no longer leads")
	}
	client, claim := p.handle.ClientSet().ResourceV1().ResourceClaims(claim.Namespace), claim.DeepCopy()
	if claim.Status.Allocation != nil {
		claim.Status = resourcev1.ResourceClaimStatus{}
		released, err := client.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("releasing the devices: %w", err)
		}
		claim = released
	}
	if !resourceclaims.IsOfExtendedResource(claim) {
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
