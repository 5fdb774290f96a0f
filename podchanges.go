// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// rejectChanged deletes a Pod that was just created if an admission policy or a webhook has changed what the controller relies on:
// it would not find the Pod again, or take it for another one, while its program runs.
func (c *Controller) rejectChanged(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, sent, created *corev1.Pod) error {
	change := changeOnCreation(sent, created)
	if change == "" {
		return nil
	}
	obstacle := &gputask.Obstacle{Reason: reasonPodChanged,
		Message: fmt.Sprintf("an admission policy or a webhook changes %s of the Pod: exempt the Pods of GPUTasks from it", change)}
	c.expectations.ObserveCreation(key, sent.Name) // the cache may never show it
	c.refused(key, task, obstacle)
	err := c.clients.kube.CoreV1().Pods(created.Namespace).Delete(ctx, created.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(created.UID)),
	})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return errors.Join(fmt.Errorf("creating Pod %s: %s", sent.Name, obstacle.Message), err)
}

// changeOnCreation returns what was changed in a Pod when it was created, of what the controller relies on; empty if nothing was.
func changeOnCreation(sent, created *corev1.Pod) string {
	for _, label := range slices.Sorted(maps.Keys(sent.Labels)) {
		if strings.HasPrefix(label, v1.GroupName+"/") && created.Labels[label] != sent.Labels[label] {
			return fmt.Sprintf("the label %s (%q, now %q)", label, sent.Labels[label], created.Labels[label])
		}
	}
	switch before, after := metav1.GetControllerOfNoCopy(sent), metav1.GetControllerOfNoCopy(created); {
	case after == nil || after.UID != before.UID:
		return "the owner reference"
	case created.Spec.RestartPolicy != sent.Spec.RestartPolicy:
		return fmt.Sprintf("restartPolicy (%s, now %s)", sent.Spec.RestartPolicy, created.Spec.RestartPolicy)
	default:
		return ""
	}
}
