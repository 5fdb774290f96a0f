// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

const (
	namespace = "default"
	// gpuModel is the model of all GPUs.
	gpuModel = "h100-80gb-hbm3"
	image    = "bench.example.com/train:v1"
)

// gang is one GPUTask and its Pods.
type gang struct {
	task *v1.GPUTask
}

func newGang(name string, size int, amount string) *gang {
	replicas := int32(size) //nolint:gosec // small
	return &gang{task: &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       v1.GPUTaskSpec{GPU: gpuModel, GPUAmount: amount, CPU: "1", Memory: "1Gi", Replicas: &replicas},
	}}
}

// gangsOf returns the gangs of a kind.
func gangsOf(k kind, amount string) []*gang {
	gangs := make([]*gang, k.gangs)
	for i := range gangs {
		gangs[i] = newGang(fmt.Sprintf("bench-%05d", i), k.size, amount)
	}
	return gangs
}

func (g *gang) name() string { return g.task.Name }
func (g *gang) size() int    { return int(*g.task.Spec.Replicas) }

// pod returns the Pod that gpu-controller would create.
func (g *gang) pod(index int) (*corev1.Pod, error) {
	return gputask.NewPod(g.task, index, 0, gputask.PodDefaults{Image: image})
}

// once calls a function once, on the first call of do, and returns its result to all
// callers.
type once[T any] struct {
	once   sync.Once
	call   func(context.Context) (T, error)
	result T
	err    error
}

func newOnce[T any](call func(context.Context) (T, error)) *once[T] { return &once[T]{call: call} }

func (o *once[T]) do(ctx context.Context) (T, error) {
	o.once.Do(func() { o.result, o.err = o.call(ctx) })
	return o.result, o.err
}
