// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding binds Pods so that the outcome is always known afterwards, and makes
// sure that Bindings sent by other processes can no longer take effect.
//
// A Binding may take effect long after it was sent: its sender may have been killed, or
// its request may have timed out. If the GPUs are given to another Pod in the meantime,
// they are given twice. So each Binding is for one version of its Pod. Changing the Pod,
// which is called fencing it, makes all Bindings that are still in flight fail, and the
// response shows whether one of them took effect before.
package binding

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

const (
	// maxInFlight is how many Bindings are in flight at most. An API server takes 100
	// requests at a time on one connection; for more of them client-go opens others, and
	// the handshakes of a large gang cost more than its Bindings.
	maxInFlight = 64
	// maxAttempts is how often binding is attempted for a Pod that keeps changing.
	maxAttempts = 10
	// leasePeriod is how often to check whether this process leads again.
	leasePeriod = 50 * time.Millisecond
)

// Leader reports whether this process may act at this moment.
type Leader interface {
	Leads() bool
}

// Binder binds Pods. It is safe for concurrent use.
type Binder struct {
	client   kubernetes.Interface
	leader   Leader
	fencer   *Fencer
	inFlight chan struct{}
}

// NewBinder returns a Binder that sends nothing while this process does not lead. A process whose lease is lost for
// good is about to end; one that could not renew it in time, since the API server was down or slow, may have it again
// in a moment. So Bindings wait: the Pods and the nodes are as good as before, and to fail would cost each gang its
// place, and another attempt.
func NewBinder(client kubernetes.Interface, leader Leader, fencer *Fencer) *Binder {
	return &Binder{client: client, leader: leader, fencer: fencer, inFlight: make(chan struct{}, maxInFlight)}
}

// Place returns the value of the annotation that names a Pod's GPUs for its node, "" for
// none, or an error if the Pod has lost its place.
type Place func() (assignment string, err error)

// Bind binds a Pod, in the given version or a later one, to a node, as long as it has a
// place there. If it returns an error, the Pod is not on that node with these GPUs, and
// no Binding sent from here can still put it there, unless ctx ended first, with the
// process.
func (b *Binder) Bind(ctx context.Context, pod *corev1.Pod, node string, place Place) error {
	for range maxAttempts {
		want, sent, err := b.send(ctx, pod, node, place)
		if err == nil || !sent || isRejection(err) {
			return err
		}
		live, findErr := b.find(ctx, pod, err)
		if findErr != nil {
			return fmt.Errorf("%w (binding it: %w)", findErr, err)
		}
		switch done, why := want.isMetBy(live); {
		case done:
			return nil
		case why != nil:
			return why
		}
		klog.FromContext(ctx).V(2).Info("Retrying to bind a Pod", "pod", klog.KObj(pod), "node", node, "err", err)
		pod = live
	}
	return fmt.Errorf("it has changed %d times while it was being bound", maxAttempts)
}

// send sends a Binding for one version of a Pod once this process leads, and returns what the Binding says. That
// version was read before the check that this process leads, so a successor can only have taken over later, and changes
// this version before it gives the GPUs to others. sent is false if the Pod has lost its place or ctx ended before.
func (b *Binder) send(ctx context.Context, pod *corev1.Pod, node string, place Place) (want wanted, sent bool, err error) {
	select {
	case b.inFlight <- struct{}{}:
		defer func() { <-b.inFlight }()
	case <-ctx.Done():
		return want, false, ctx.Err()
	}
	if err := b.awaitLease(ctx); err != nil {
		return want, false, err
	}
	want.node = node
	if want.assignment, err = place(); err != nil {
		return want, false, err
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Annotations: map[string]string{v1.AnnotationSchedulerInstance: b.fencer.mark()},
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: want.node},
	}
	if pod.Annotations[v1.AnnotationWaitingReason] != "" {
		binding.Annotations[v1.AnnotationWaitingReason] = "" // it waits no more
	}
	if _, written := pod.Annotations[inventory.AssignmentAnnotation]; written || want.assignment != "" {
		// What the Pod's creator has written must not stay. A Binding can't remove an annotation.
		binding.Annotations[inventory.AssignmentAnnotation] = want.assignment
	}
	return want, true, b.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
}

// awaitLease waits until this process leads. It never does again once another process has led, and then ends.
func (b *Binder) awaitLease(ctx context.Context) error {
	for !b.leader.Leads() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.fencer.clock.After(leasePeriod):
		}
	}
	return nil
}

// isRejection reports whether an error means for certain that the API server has not
// carried out a Binding and never will, whatever has become of the Pod.
func isRejection(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// find returns the current state of a Pod after an error that leaves the outcome open.
func (b *Binder) find(ctx context.Context, pod *corev1.Pod, err error) (*corev1.Pod, error) {
	if apierrors.IsConflict(err) {
		// The Pod has changed: a Binding that is in flight is for the older version.
		return b.fencer.Look(ctx, pod)
	}
	return b.fencer.Fence(ctx, pod)
}

// wanted is the outcome that a Binding is to have.
type wanted struct{ node, assignment string }

// isMetBy reports whether a Pod is in the wanted state, and returns an error if it never
// will be.
func (w wanted) isMetBy(live *corev1.Pod) (done bool, err error) {
	switch {
	case live.Spec.NodeName == w.node && inventory.SameDevices(live.Annotations[inventory.AssignmentAnnotation], w.assignment):
		return true, nil
	case live.Spec.NodeName != "":
		return false, fmt.Errorf("it was bound to node %s by another scheduler", live.Spec.NodeName)
	case live.DeletionTimestamp != nil:
		return false, errors.New("it is being deleted")
	case len(live.Spec.SchedulingGates) > 0:
		return false, errors.New("it has scheduling gates")
	}
	return false, nil
}
