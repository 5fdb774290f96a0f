// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rescheduling is the controller's view of the rescheduler.
type rescheduling interface {
	// Steer makes a Pod that is moved prefer its destination.
	Steer(pod *corev1.Pod) error
	// Moves reports whether Pods of the task are being moved: that they are lost is then
	// expected.
	Moves(task types.UID) bool
	// Changed is called for every change of a task or one of its Pods.
	Changed()
}

// noRescheduling is used if rescheduling is disabled.
type noRescheduling struct{}

var _ rescheduling = noRescheduling{}

// Steer implements rescheduling.
func (noRescheduling) Steer(*corev1.Pod) error { return nil }

// Moves implements rescheduling.
func (noRescheduling) Moves(types.UID) bool { return false }

// Changed implements rescheduling.
func (noRescheduling) Changed() {}
