// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// deletePod deletes a Pod as a user does.
func (s *suite) deletePod(name string) {
	s.Helper()
	if err := s.kube.CoreV1().Pods(s.namespace).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

// loseNode deletes a node and, as an operator would, the Pods on it: the garbage
// collector would wait for a minute.
func (s *suite) loseNode(name string) {
	s.Helper()
	s.deleteNode(name)
	if err := s.loseNow(s.Context(), s.node(name)); err != nil {
		s.Fatal(err)
	}
}

// loseNow deletes the Pods of the suite on a node without a grace period.
func (s *suite) loseNow(ctx context.Context, node string) error {
	for _, pod := range s.ledger.podsWith(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == node && isHolding(pod) }) {
		err := s.kube.CoreV1().Pods(s.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// evict evicts a Pod through the Eviction API.
func (s *suite) evict(ctx context.Context, pod *corev1.Pod) error {
	err := s.kube.CoreV1().Pods(s.namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: s.namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// bind binds a Pod as another scheduler would.
func (s *suite) bind(pod, node string) {
	s.Helper()
	s.ledger.expectByHand(pod)
	s.eventually("Pod "+pod+" can be bound", func() (bool, string) {
		err := s.kube.CoreV1().Pods(s.namespace).Bind(s.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: s.node(node)},
		}, metav1.CreateOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// finish makes a simulated Pod succeed now.
func (s *suite) finish(pod *corev1.Pod) {
	s.Helper()
	s.eventually("Pod "+pod.Name+" runs", func() (bool, string) {
		got, err := s.kube.CoreV1().Pods(s.namespace).Get(s.Context(), pod.Name, metav1.GetOptions{})
		return err == nil && got.Status.Phase == corev1.PodRunning, fmt.Sprint(err)
	})
	patch := fmt.Sprintf(`{"metadata": {"annotations": {"simulation.falldio.com/finish-at": %q}}}`, time.Now().Format(time.RFC3339))
	_, err := s.kube.CoreV1().Pods(s.namespace).Patch(s.Context(), pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

// deleteGang deletes the Pods of a gang and waits until they are gone.
func (s *suite) deleteGang(name string) {
	s.Helper()
	err := s.kube.CoreV1().Pods(s.namespace).DeleteCollection(s.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "gang=" + name})
	if err != nil {
		s.Fatal(err)
	}
	s.eventually("the Pods of "+name+" are gone", func() (bool, string) {
		left := s.ledger.podsOf(name)
		return len(left) == 0, describe(left)
	})
}
