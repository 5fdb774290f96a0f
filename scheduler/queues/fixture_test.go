// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

var beginning = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// bareCore is a Core without claims, of Pods that only ask for GPUs. It does nothing.
type bareCore struct {
	Core
	postponed func(leader *corev1.Pod, action, text string)
}

func (bareCore) Demands(string) []Demand                        { return nil }
func (bareCore) KeptFor() map[string]bool                       { return nil }
func (bareCore) UnpreparedClaims(*gangs.Attempt) string         { return "" }
func (bareCore) ShapeOf(shape *placement.Shape) placement.Shape { return *shape }
func (c bareCore) ReportPostponed(leader *corev1.Pod, action, text string) {
	c.postponed(leader, action, text)
}

func (bareCore) RequestLater(attempt *gangs.Attempt) (*gangs.Request, error) {
	shape := func(m *gangs.Member) placement.Shape { return m.Shape }
	return &gangs.Request{Members: snapshot.NewMembers(attempt.Waiting, shape, nil, attempt.Need)}, nil
}

// newLine returns the Line of an empty cluster.
func newLine(tb testing.TB, core Core) *Line {
	tb.Helper()
	args, clock := config.DefaultGangArgs(), clocktesting.NewFakeClock(beginning)
	return NewLine(Sources{
		Args: args, Clock: clock, Registry: gangs.NewRegistry(gangs.Timing{}), Mirror: mirror.New(klog.Background(), clock, args.Levels(), nil),
	}, core)
}

// pod returns a Pod that wants so many GPUs.
func pod(name string, gpus int, options ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{}, CreationTimestamp: metav1.NewTime(beginning),
	}}
	p.Spec.SchedulerName = "gpu-scheduler"
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1"), v1.ResourceGPU: resource.MustParse(strconv.Itoa(gpus)),
	}}}}
	for _, option := range options {
		option(p)
	}
	return p
}

// queue returns a GPUQueue for all namespaces.
func queue(name string, guaranteed int32, limit *int32) *v1.GPUQueue {
	return &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.GPUQueueSpec{
		NamespaceSelector: &metav1.LabelSelector{},
		Resources:         []v1.GPUQueueResource{{GPU: v1.AnyGPU, Guaranteed: guaranteed, Limit: limit}},
	}}
}

func inQueue(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[v1.LabelQueue] = name }
}

func runsFor(limit time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1.AnnotationMaxRuntime, strconv.Itoa(int(limit.Seconds())))
		p.Spec.ActiveDeadlineSeconds = new(int64(limit.Seconds()))
	}
}
