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

// ErrGone is returned for a Pod that is gone, or whose name another one has.
var ErrGone = errors.New("the Pod is gone")

// outlast is how long it takes until no Binding can be on its way any more for which
// nothing else has seen to it: twice as long as an API server works on a request by
// default (kube-apiserver's --request-timeout).
const outlast = 2 * time.Minute

// Fencer changes Pods so that Bindings that are on their way come to nothing. It is
// safe for concurrent use.
type Fencer struct {
	client   kubernetes.Interface
	clock    clock.Clock
	instance string
	number   atomic.Uint64
}

// NewFencer returns the Fencer of a process, whose name no other process bears.
func NewFencer(client kubernetes.Interface, clock clock.Clock, instance string) *Fencer {
	return &Fencer{client: client, clock: clock, instance: instance}
}

// Instance is the process's name.
func (f *Fencer) Instance() string { return f.instance }

// mark returns a value of annotation falldio.com/scheduler-instance that no Pod has.
func (f *Fencer) mark() string {
	return f.instance + "/" + strconv.FormatUint(f.number.Add(1), 10)
}

// InstanceOf returns the process that has bound or fenced a Pod last; "" if none has.
func InstanceOf(pod *corev1.Pod) string {
	mark := pod.Annotations[v1.AnnotationSchedulerInstance]
	return mark[:max(0, strings.LastIndexByte(mark, '/'))]
}

// Fence changes a Pod, so that no Binding to an older version of it can come true any
// more, and returns it as it is then: with a node if one has come true before. It tries
// until the change is made, the Pod is gone (ErrGone) or ctx has ended. If the change
// is refused for so long that nothing can be on its way any more, that is the error.
func (f *Fencer) Fence(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return f.insist(ctx, "Fencing a Pod failed", pod, f.change)
}

func (f *Fencer) change(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	patch, err := podwrite.Patch{Metadata: podwrite.Metadata{
		UID: pod.UID, Annotations: map[string]string{v1.AnnotationSchedulerInstance: f.mark()},
	}}.Bytes()
	if err != nil {
		return nil, err
	}
	// Any change will do, and this subresource a scheduler may change in any case.
	live, err := f.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if podwrite.IsGone(err) {
		return nil, ErrGone
	}
	return live, err
}

// Look returns a Pod as it is at this moment, with the errors of Fence.
func (f *Fencer) Look(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	return f.insist(ctx, "Looking at a Pod failed", pod, f.get)
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

// insist sends a request until it is answered.
func (f *Fencer) insist(ctx context.Context, failed string, pod *corev1.Pod, request func(context.Context, *corev1.Pod) (*corev1.Pod, error)) (*corev1.Pod, error) {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 8, Cap: 5 * time.Second}
	begin := f.clock.Now()
	for {
		live, err := request(ctx, pod)
		switch {
		case err == nil, errors.Is(err, ErrGone):
			return live, err
		case refuses(err) && f.clock.Since(begin) > outlast:
			return nil, fmt.Errorf("refused for %v: %w", outlast, err)
		}
		klog.FromContext(ctx).Error(err, failed+"; it is tried again", "pod", klog.KObj(pod))
		timer := f.clock.NewTimer(backoff.Step())
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-timer.C():
		}
	}
}
