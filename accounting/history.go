// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"falldio.github.io/gpu-controller/pkg/gpupods"
)

// historySeconds is after how long the API server ends a watch. What has happened before the watch began, it sends at
// once.
const historySeconds = 3

// deletedSince returns the Pods that were deleted after one version and before another. The API server remembers a few
// minutes; if it no longer knows, there are none.
func deletedSince(ctx context.Context, kube kubernetes.Interface, from, to uint64, now time.Time) ([]*corev1.Pod, error) {
	var deleted []*corev1.Pod
	for from > 0 && from < to {
		before := from
		watcher, err := kube.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{
			ResourceVersion: strconv.FormatUint(from, 10), AllowWatchBookmarks: true, TimeoutSeconds: ptr.To[int64](historySeconds),
		})
		if err == nil {
			deleted, from, err = readHistory(watcher, deleted, from, to, now)
		}
		switch {
		case apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			klog.FromContext(ctx).Info("Pods that were deleted while no gpu-controller counted are counted up to then only", "err", err)
			return deleted, nil
		case err != nil:
			return nil, err
		case from == before:
			return deleted, ctx.Err() // there is no more
		}
	}
	return deleted, nil
}

// readHistory adds the Pods that a watch reports as deleted, until it ends or has reached a version.
func readHistory(watcher watch.Interface, deleted []*corev1.Pod, from, to uint64, now time.Time) ([]*corev1.Pod, uint64, error) {
	defer watcher.Stop()
	for from < to {
		event, ok := <-watcher.ResultChan()
		if !ok {
			break
		}
		if event.Type == watch.Error {
			return deleted, from, apierrors.FromObject(event.Object)
		}
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		if version, err := strconv.ParseUint(pod.ResourceVersion, 10, 64); err == nil {
			from = max(from, version)
		}
		if event.Type == watch.Deleted {
			deleted = append(deleted, gpupods.Gone(pod, deletionOf(pod, now)))
		}
	}
	return deleted, from, nil
}

// deletionOf returns when a Pod was deleted: not later than now.
func deletionOf(pod *corev1.Pod, now time.Time) metav1.Time {
	if at := pod.DeletionTimestamp; at != nil && at.Time.Before(now) {
		return *at
	}
	return metav1.NewTime(now)
}
