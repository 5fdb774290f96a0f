// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding binds Pods so that it is certain afterwards what has come of it, and
// makes sure that Bindings of others can't come true any more.
//
// A Binding may come true long after it was sent: when its sender was killed, or was
// told that it has timed out. Whoever gives the GPUs to another Pod meanwhile gives
// them twice. So each Binding is for one version of its Pod. Changing the Pod, which is
// called fencing it, makes all Bindings that are still on their way come to nothing,
// and the answer says whether one of them came true before.
package binding

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

const (
	// atATime is how many Bindings are on their way at a time. An API server takes 100
	// requests at a time on one connection; for more of them client-go opens others,
	// and the handshakes of a large gang cost more than its Bindings.
	atATime = 64
	// tries is how often a Pod is bound again that changes all the time.
	tries = 10
)

// ErrNotLeading is returned by a process that is no longer the leader. Nothing was sent.
var ErrNotLeading = errors.New("another gpu-scheduler may have taken over")

// Leader knows whether this process may act at this moment.
type Leader interface {
	Leads() bool
}

// Binder binds Pods. It is safe for concurrent use.
type Binder struct {
	client kubernetes.Interface
	leader Leader
	fencer *Fencer
	lanes  chan struct{}
}

// NewBinder returns a Binder that sends nothing while the leader does not lead.
func NewBinder(client kubernetes.Interface, leader Leader, fencer *Fencer) *Binder {
	return &Binder{client: client, leader: leader, fencer: fencer, lanes: make(chan struct{}, atATime)}
}

// Place returns the value of the annotation that tells a Pod's node which GPUs it has, ""
// for none, or an error if the Pod's place is not its own any more.
type Place func() (assignment string, err error)

// Bind binds a Pod, in the version that is given or a later one, to a node, as long as
// it has a place there. If it returns an error, the Pod is not on that node with these
// GPUs, and no Binding sent here can bring it there any more; but for ctx ending first,
// with the process.
func (b *Binder) Bind(ctx context.Context, pod *corev1.Pod, node string, place Place) error {
	for range tries {
		assignment, err := place()
		if err != nil {
			return err
		}
		want := wanted{node: node, assignment: assignment}
		err = b.send(ctx, pod, want)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrNotLeading) || refuses(err) {
			return err
		}
		live, lookErr := b.find(ctx, pod, err)
		if lookErr != nil {
			return fmt.Errorf("%w (binding it: %w)", lookErr, err)
		}
		switch done, why := want.isMetBy(live); {
		case done:
			return nil
		case why != nil:
			return why
		}
		klog.FromContext(ctx).V(2).Info("Binding a Pod once more", "pod", klog.KObj(pod), "node", node, "err", err)
		pod = live
	}
	return fmt.Errorf("it has changed %d times while it was being bound", tries)
}

// send sends a Binding to one version of a Pod. The version was read before it is
// asked whether this process leads, so a successor can only have come later, and
// changes this version before it gives the GPUs to others.
func (b *Binder) send(ctx context.Context, pod *corev1.Pod, want wanted) error {
	select {
	case b.lanes <- struct{}{}:
		defer func() { <-b.lanes }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if !b.leader.Leads() {
		return ErrNotLeading
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Annotations: map[string]string{v1.AnnotationSchedulerInstance: b.fencer.mark()},
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: want.node},
	}
	if want.assignment != "" {
		binding.Annotations[inventory.AssignmentAnnotation] = want.assignment
	}
	return b.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
}

// refuses reports whether an error says for certain that the API server has not carried
// a Binding out and never will, whatever has become of the Pod.
func refuses(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// find finds out what has become of a Pod after an error that does not say it.
func (b *Binder) find(ctx context.Context, pod *corev1.Pod, err error) (*corev1.Pod, error) {
	if apierrors.IsConflict(err) {
		// The Pod has changed: what is on its way is for the version that was.
		return b.fencer.Look(ctx, pod)
	}
	return b.fencer.Fence(ctx, pod)
}

// wanted is what a Binding brings about.
type wanted struct{ node, assignment string }

// isMetBy reports whether a Pod is as it was to be, and returns an error if it never
// will be.
func (w wanted) isMetBy(live *corev1.Pod) (done bool, err error) {
	switch {
	case live.Spec.NodeName == w.node && live.Annotations[inventory.AssignmentAnnotation] == w.assignment:
		return true, nil
	case live.Spec.NodeName != "":
		return false, fmt.Errorf("it was bound to node %s by somebody else", live.Spec.NodeName)
	case live.DeletionTimestamp != nil:
		return false, errors.New("it is being deleted")
	case len(live.Spec.SchedulingGates) > 0:
		return false, errors.New("it has scheduling gates")
	}
	return false, nil
}
