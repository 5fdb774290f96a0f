// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podwrite"
)

// ErrGone is returned for a Pod that no longer exists, even if another Pod has its name.
var ErrGone = errors.New("the Pod is gone")

// inFlightLimit is how long a Binding for a Pod that can't be fenced may be in flight:
// twice as long as an API server works on a request by default (kube-apiserver's
// --request-timeout).
const inFlightLimit = 2 * time.Minute

// Fencer changes Pods so that Bindings that are in flight fail. It is safe for concurrent
// use.
type Fencer struct {
	client   kubernetes.Interface
	clock    clock.Clock
	instance string
	number   atomic.Uint64
}

// NewFencer returns the Fencer of a process. The instance is the process's unique name.
func NewFencer(client kubernetes.Interface, clock clock.Clock, instance string) *Fencer {
	return &Fencer{client: client, clock: clock, instance: instance}
}

// Instance returns the process's name.
func (f *Fencer) Instance() string { return f.instance }

// mark returns a value of annotation falldio.com/scheduler-instance that no Pod has yet.
func (f *Fencer) mark() string {
	return f.instance + "/" + strconv.FormatUint(f.number.Add(1), 10)
}

// InstanceOf returns the process that last bound or fenced a Pod; "" if none did.
func InstanceOf(pod *corev1.Pod) string {
	mark := pod.Annotations[v1.AnnotationSchedulerInstance]
	return mark[:max(0, strings.LastIndexByte(mark, '/'))]
}

// Fence changes a Pod, so that no Binding for an older version of it can take effect any
// more, and returns the changed Pod: with a node if a Binding took effect before. It
// retries until the change succeeds, the Pod is gone (ErrGone) or ctx has ended. If the
// change is refused for so long that no Binding can be in flight any more, it returns
// that error.
func (f *Fencer) Fence(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return f.retry(ctx, "Fencing a Pod failed", pod, f.change)
}

func (f *Fencer) change(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	patch, err := podwrite.Patch{Metadata: podwrite.Metadata{
		UID: pod.UID, Annotations: map[string]string{v1.AnnotationSchedulerInstance: f.mark()},
	}}.Bytes()
	if err != nil {
		return nil, err
	}
	// Any change will do, and a scheduler may always patch this subresource.
	live, err := f.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if podwrite.IsGone(err) {
		return nil, ErrGone
	}
	return live, err
}

// Look reads a Pod from the API server. Its errors are those of Fence.
func (f *Fencer) Look(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return f.retry(ctx, "Reading a Pod failed", pod, f.get)
}

func (f *Fencer) get(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	live, err := f.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && live.UID != pod.UID:
		return nil, ErrGone
	case err != nil:
		return nil, err
	}
	return live, nil
}

// retry repeats a request until it succeeds or its outcome is final.
func (f *Fencer) retry(ctx context.Context, failed string, pod *corev1.Pod, request func(context.Context, *corev1.Pod) (*corev1.Pod, error)) (*corev1.Pod, error) {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 5 * time.Second}
	begin := f.clock.Now()
	for {
		live, err := request(ctx, pod)
		switch {
		case err == nil, errors.Is(err, ErrGone):
			return live, err
		case isRejection(err) && f.clock.Since(begin) > inFlightLimit:
			return nil, fmt.Errorf("refused for %v: %w", inFlightLimit, err)
		}
		klog.FromContext(ctx).Error(err, failed+"; retrying", "pod", klog.KObj(pod))
		timer := f.clock.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-timer.C():
		}
	}
}
