// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// PodInformer is an informer for the Pods that are bound to a node. Of their specs it keeps
// only the containers' resources, and of their statuses the containers' IDs.
type PodInformer struct{ informer cache.SharedIndexInformer }

// NewPodInformer returns an informer that is not running yet.
func NewPodInformer(config *rest.Config, node string) (*PodInformer, error) {
	client, err := core(config, newScheme())
	if err != nil {
		return nil, err
	}
	ofNode := fields.OneTermEqualSelector("spec.nodeName", node)
	informer := cache.NewSharedIndexInformer(cache.NewListWatchFromClient(client, Pods.Resource, metav1.NamespaceAll, ofNode),
		&corev1.Pod{}, 0, cache.Indexers{})
	return &PodInformer{informer}, informer.SetTransform(stripPod)
}

// Run keeps the Pods up to date until ctx ends. It may be called only once.
func (p *PodInformer) Run(ctx context.Context) { p.informer.RunWithContext(ctx) }

// Synced returns a channel that is closed once all existing Pods are in the cache.
func (p *PodInformer) Synced() <-chan struct{} { return p.informer.HasSyncedChecker().Done() }

// List returns the Pods from the cache. They must not be modified.
func (p *PodInformer) List() []*corev1.Pod {
	objects := p.informer.GetStore().List()
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// stripPod drops what the agent does not use: most of a Pod.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields = nil
	pod.Spec = corev1.PodSpec{
		NodeName:       pod.Spec.NodeName,
		InitContainers: stripContainers(pod.Spec.InitContainers),
		Containers:     stripContainers(pod.Spec.Containers),
	}
	pod.Status = corev1.PodStatus{
		Phase:      pod.Status.Phase,
		StartTime:  pod.Status.StartTime,
		Conditions: pod.Status.Conditions,

		InitContainerStatuses: stripStatuses(pod.Status.InitContainerStatuses),
		ContainerStatuses:     stripStatuses(pod.Status.ContainerStatuses),
	}
	return pod, nil
}

// stripStatuses keeps which containers there are.
func stripStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	stripped := make([]corev1.ContainerStatus, len(statuses))
	for i := range statuses {
		stripped[i] = corev1.ContainerStatus{Name: statuses[i].Name, ContainerID: statuses[i].ContainerID}
	}
	return stripped
}

func stripContainers(containers []corev1.Container) []corev1.Container {
	stripped := make([]corev1.Container, len(containers))
	for i := range containers {
		stripped[i] = corev1.Container{
			Name: containers[i].Name, Resources: containers[i].Resources, RestartPolicy: containers[i].RestartPolicy,
		}
	}
	return stripped
}

// PatchPod returns a function that patches a Pod with a JSON merge patch.
func PatchPod(client metadata.Interface, fieldManager string) func(context.Context, types.NamespacedName, []byte) error {
	return func(ctx context.Context, pod types.NamespacedName, patch []byte) error {
		_, err := client.Resource(Pods).Namespace(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: fieldManager})
		return err
	}
}
