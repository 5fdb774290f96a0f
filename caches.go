// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	taskinformers "falldio.github.io/gpu-controller/pkg/generated/informers/externalversions"
	tasklisters "falldio.github.io/gpu-controller/pkg/generated/listers/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/trimming"
)

// resyncPeriod is how often every task is reconciled even if nothing has changed.
const resyncPeriod = 10 * time.Minute

// Names of the informers' indexes.
const (
	// byDependency finds the tasks that name a task in spec.dependsOn.
	byDependency = "dependency"
	// byTask finds the Pods of a task.
	byTask = "task"
)

// caches hold GPUTasks, their Pods and their Services. They may be stale.
type caches struct {
	taskInformers taskinformers.SharedInformerFactory
	coreInformers informers.SharedInformerFactory
	// refusalInformers and clusterInformers are of what may make the API server accept Pods that it
	// has refused. They run in the leader only.
	refusalInformers, clusterInformers informers.SharedInformerFactory
	// nodeInformers is of Nodes. The parts of the leader that need them share it, and start it when they do: kubelets
	// report so often that decoding each report once more would be most of what a cluster at rest costs.
	nodeInformers informers.SharedInformerFactory
	tasks         tasklisters.GPUTaskLister
	taskIndex     cache.Indexer
	podIndex      cache.Indexer
	serviceIndex  cache.Indexer
}

// newCaches returns the caches for one namespace, or for all if it is empty. They are
// filled once the informers are started.
func newCaches(kube kubernetes.Interface, client clientset.Interface, namespace string) (*caches, error) {
	trimmer := trimming.ForController()
	taskInformers := taskinformers.NewSharedInformerFactoryWithOptions(client, resyncPeriod,
		taskinformers.WithNamespace(namespace), taskinformers.WithTransform(trimmer.Transform))
	coreInformers := informers.NewSharedInformerFactoryWithOptions(kube, 0,
		informers.WithNamespace(namespace), informers.WithTransform(trimmer.Transform),
		informers.WithTweakListOptions(func(list *metav1.ListOptions) {
			list.LabelSelector = v1.SelectorOfTasks
		}))
	tasks, core := taskInformers.Falldio().V1().GPUTasks(), coreInformers.Core().V1()
	pods, services := core.Pods().Informer(), core.Services().Informer()
	return &caches{
			taskInformers: taskInformers, coreInformers: coreInformers,
			refusalInformers: informers.NewSharedInformerFactoryWithOptions(kube, 0,
				informers.WithNamespace(namespace), informers.WithTransform(informer.WithoutManagedFields)),
			clusterInformers: informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(informer.WithoutManagedFields)),
			nodeInformers:    informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithTransform(trimmer.Transform)),
			tasks:            tasks.Lister(), taskIndex: tasks.Informer().GetIndexer(), podIndex: pods.GetIndexer(), serviceIndex: services.GetIndexer(),
		}, errors.Join(
			tasks.Informer().AddIndexers(cache.Indexers{byDependency: dependenciesOf}),
			pods.AddIndexers(cache.Indexers{byTask: taskOf}),
		)
}

// dependenciesOf returns the keys of the tasks that a task depends on.
func dependenciesOf(object any) ([]string, error) {
	task, ok := object.(*v1.GPUTask)
	if !ok {
		return nil, nil
	}
	keys := make([]string, 0, len(task.Spec.DependsOn))
	for i := range task.Spec.DependsOn {
		keys = append(keys, task.Namespace+"/"+task.Spec.DependsOn[i].Name)
	}
	return keys, nil
}

// taskOf returns the identity of the task that a Pod belongs to.
func taskOf(object any) ([]string, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	if owner, owned := gputask.OwnerOf(pod); owned {
		return []string{owner.String()}, nil
	}
	return nil, nil
}

// podsOf returns the Pods of a task.
func (c *caches) podsOf(task *v1.GPUTask) []*corev1.Pod {
	objects, err := c.podIndex.ByIndex(byTask, gputask.IdentityOf(task).String())
	if err != nil {
		return nil // can't happen: the index exists
	}
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// hasService reports whether a task's Service exists.
func (c *caches) hasService(task *v1.GPUTask) bool {
	object, exists, err := c.serviceIndex.GetByKey(task.Namespace + "/" + gputask.ServiceName(task))
	if err != nil || !exists {
		return false
	}
	service, ok := object.(*corev1.Service)
	return ok && metav1.IsControlledBy(service, task)
}

// waitingDependents returns the tasks that wait for the one with the given key.
func (c *caches) waitingDependents(key cache.ObjectName) []*v1.GPUTask {
	objects, err := c.taskIndex.ByIndex(byDependency, key.String())
	if err != nil {
		return nil // can't happen: the index exists
	}
	var waiting []*v1.GPUTask
	for _, object := range objects {
		if task, ok := object.(*v1.GPUTask); ok && gputask.WaitsForDependencies(task) {
			waiting = append(waiting, task)
		}
	}
	return waiting
}
