// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// Events returns the Events of an object, in no order.
func Events(ctx context.Context, clients *Clients, namespace string, uid types.UID) ([]corev1.Event, error) {
	selector := fields.Set{"involvedObject.uid": string(uid)}.AsSelector().String()
	list, err := clients.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(event corev1.Event) bool { return event.InvolvedObject.UID != uid }), nil
}

// PodWarnings returns the Warning Events about the Pods of a namespace, in no order.
func PodWarnings(ctx context.Context, clients *Clients, namespace string) ([]corev1.Event, error) {
	selector := fields.Set{"involvedObject.kind": "Pod", "type": corev1.EventTypeWarning}.AsSelector().String()
	list, err := clients.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
