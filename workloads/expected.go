// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"context"
	"fmt"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/kueue"
)

const (
	// askPeriod is how often to ask whether Kueue is expected while its API is absent, and
	// askAgain how soon after an error; askLimit is how long the answer may take.
	askPeriod = time.Minute
	askAgain  = 5 * time.Second
	askLimit  = 10 * time.Second
)

// expectation is whether Kueue is to be there, although its API is absent: gpu-controller has been
// given the right to its Workloads. Unlike what a process has seen, that outlasts it. It is safe for
// concurrent use.
type expectation struct {
	reviews   authorizationclient.SelfSubjectAccessReviewInterface
	namespace string
	clock     clock.Clock
	// absent reports whether the API is, and changed is called when the answer is known or has changed.
	absent  func() bool
	changed func()
	asked   chan struct{}

	mu              sync.Mutex
	known, expected bool
}

// forget has the API server asked anew: the API has come or gone.
func (e *expectation) forget() {
	e.mu.Lock()
	e.known = false
	e.mu.Unlock()
	select {
	case e.asked <- struct{}{}:
	default: // it is about to be asked
	}
}

// get returns whether Kueue is expected, and whether that is known.
func (e *expectation) get() (expected, known bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.expected, e.known
}

// run asks the API server until ctx ends, while the API is absent.
func (e *expectation) run(ctx context.Context) {
	for {
		wait := askPeriod
		if e.absent() {
			if err := e.review(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "Whether Kueue is expected is not known: tasks that name a queue of Kueue wait")
				wait = askAgain
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-e.asked:
		case <-e.clock.After(wait):
		}
	}
}

func (e *expectation) review(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	review, err := e.reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: e.namespace, Verb: "list", Group: kueue.Group, Version: kueue.Version, Resource: kueue.Workloads,
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking for the right to list Workloads: %w", err)
	}
	if !e.absent() {
		return nil // what was forgotten stays forgotten
	}
	e.mu.Lock()
	news := !e.known || e.expected != review.Status.Allowed
	e.known, e.expected = true, review.Status.Allowed
	e.mu.Unlock()
	if news {
		e.changed()
	}
	return nil
}
