// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// crdQueues is the CRD whose objects are created again: tasks that name a queue wait for it.
const crdQueues = "gpuqueues.falldio.com"

// deleteCRD deletes a CustomResourceDefinition, with all objects of its kind. It is created again as
// it was, and so are queues.
func (i *Injector) deleteCRD(ctx context.Context, name string) (action, error) {
	crd, err := i.Dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	again := &unstructured.Unstructured{Object: map[string]any{"spec": crd.Object["spec"]}}
	again.SetAPIVersion(crd.GetAPIVersion())
	again.SetKind(crd.GetKind())
	again.SetName(name)
	again.SetLabels(crd.GetLabels())
	again.SetAnnotations(crd.GetAnnotations())
	queues := &v1.GPUQueueList{}
	if name == crdQueues {
		if queues, err = i.Tasks.FalldioV1().GPUQueues().List(ctx, metav1.ListOptions{}); err != nil {
			return nil, err
		}
	}
	mend := func(ctx context.Context) error {
		if err := i.createCRD(ctx, name, again); err != nil {
			return err
		}
		return i.createQueues(ctx, queues.Items)
	}
	return mend, i.Dynamic.Resource(crds).Delete(ctx, name, metav1.DeleteOptions{})
}

// createCRD creates a CustomResourceDefinition unless it exists, and is not being deleted.
func (i *Injector) createCRD(ctx context.Context, name string, again *unstructured.Unstructured) error {
	_, err := i.Dynamic.Resource(crds).Create(ctx, again, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	got, err := i.Dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
	if err == nil && got.GetDeletionTimestamp() != nil {
		return fmt.Errorf("%s is still being deleted", name)
	}
	return err
}

func (i *Injector) createQueues(ctx context.Context, queues []v1.GPUQueue) error {
	for n := range queues {
		queue := &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: queues[n].Name}, Spec: queues[n].Spec}
		_, err := i.Tasks.FalldioV1().GPUQueues().Create(ctx, queue, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// deleteNamespace deletes a namespace with all that is in it. It is created again.
func (i *Injector) deleteNamespace(ctx context.Context, name string) (action, error) {
	mend := func(ctx context.Context) error {
		got, err := i.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil && got.DeletionTimestamp != nil:
			return fmt.Errorf("namespace %s is still being deleted", name)
		case err != nil && !apierrors.IsNotFound(err):
			return err
		}
		return i.Setup(ctx, name) // also if an attempt before this one has created the namespace
	}
	return mend, i.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
}

// floodParallel is how many fuzzed objects are created at the same time.
const floodParallel = 16

// FloodNamespace is where the objects of a flood are.
const FloodNamespace = "flood"

// flood creates fuzzed objects. What the API server refuses is refused; what it accepts must not
// hurt anybody.
func (i *Injector) flood(ctx context.Context, count int) error {
	random := rand.New(rand.NewPCG(i.Seed, 4)) //nolint:gosec // a campaign has to be repeatable
	resources := map[string]schema.GroupVersionResource{
		"GPUTask": schema.GroupVersion(v1.GroupVersion).WithResource("gputasks"), "Pod": corev1.SchemeGroupVersion.WithResource("pods"),
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(floodParallel)
	for number := range count {
		object := fuzzed(random, number)
		client := i.Dynamic.Resource(resources[object.GetKind()]).Namespace(FloodNamespace)
		group.Go(func() error {
			if groupCtx.Err() != nil {
				return groupCtx.Err()
			}
			requestCtx, cancel := context.WithTimeout(groupCtx, 10*time.Second)
			defer cancel()
			// Most are refused, and the API server may be down.
			_, _ = client.Create(requestCtx, object, metav1.CreateOptions{})
			return nil
		})
	}
	return group.Wait()
}

// EndFlood deletes what is left of the flood.
func (i *Injector) EndFlood(ctx context.Context) error {
	return insist(ctx, func(ctx context.Context) error {
		err := i.Tasks.FalldioV1().GPUTasks(FloodNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil {
			return err
		}
		return i.Kube.CoreV1().Pods(FloodNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: fuzzedLabel + "=true"})
	})
}
