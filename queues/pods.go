// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// unfinishedPods selects the Pods that hold resources or will.
const unfinishedPods = "status.phase!=Succeeded,status.phase!=Failed"

// pods are all Pods with GPUs: those of tasks, which the caller caches, and others. Pods that are
// gone are kept until they were counted.
type pods struct {
	kube  kubernetes.Interface
	clock clock.PassiveClock

	// nodes and others are nil until start.
	nodes  corelisters.NodeLister
	others corelisters.PodLister
	synced []cache.InformerSynced

	mu sync.Mutex
	// remember is true while somebody counts: Pods that are gone are remembered for the next time.
	remember bool
	gone     []*corev1.Pod
}

func newPods(kube kubernetes.Interface, clock clock.PassiveClock) *pods {
	return &pods{kube: kube, clock: clock}
}

// watch remembers when Pods of tasks are gone.
func (p *pods) watch(ctx context.Context, taskPods cache.SharedIndexInformer) error {
	_, err := informer.Handle(ctx, taskPods, cache.ResourceEventHandlerFuncs{DeleteFunc: p.deleted})
	return err
}

// start has nodes and the Pods of others cached until ctx ends, and reports whether the caches have
// synced.
func (p *pods) start(ctx context.Context, running *sync.WaitGroup) bool {
	if p.nodes == nil {
		p.startInformers(ctx, running)
	}
	for _, synced := range p.synced {
		if !synced() {
			return false
		}
	}
	return true
}

func (p *pods) startInformers(ctx context.Context, running *sync.WaitGroup) {
	trim := informer.NewTrimmer().Transform
	nodes := informers.NewSharedInformerFactoryWithOptions(p.kube, 0, informers.WithTransform(trim)).Core().V1().Nodes()
	others := informers.NewSharedInformerFactoryWithOptions(p.kube, 0, informers.WithTransform(onlyWithGPUs(trim)),
		informers.WithTweakListOptions(func(list *metav1.ListOptions) {
			list.FieldSelector = unfinishedPods
			list.LabelSelector = v1.LabelApp + "!=" + v1.LabelAppValue
		})).Core().V1().Pods()
	p.nodes, p.others = nodes.Lister(), others.Lister()
	p.synced = []cache.InformerSynced{nodes.Informer().HasSynced, others.Informer().HasSynced}
	if _, err := informer.Handle(ctx, others.Informer(), cache.ResourceEventHandlerFuncs{DeleteFunc: p.deleted}); err != nil {
		klog.FromContext(ctx).Error(err, "GPU time of Pods that are deleted is counted up to the last pass only")
	}
	running.Go(func() { nodes.Informer().RunWithContext(ctx) })
	running.Go(func() { others.Informer().RunWithContext(ctx) })
}

// onlyWithGPUs drops almost everything of Pods without GPUs, of which there may be many, and
// otherwise does as another transform.
func onlyWithGPUs(trim cache.TransformFunc) cache.TransformFunc {
	return func(object any) (any, error) {
		if pod, ok := object.(*corev1.Pod); ok && !snapshot.WantsGPUs(pod) {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}}, nil
		}
		return trim(object)
	}
}

// deleted remembers a Pod that is gone, or that has ended if those are not cached, and was bound.
func (p *pods) deleted(object any) {
	pod, ok := informer.LastKnown(object).(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || !snapshot.WantsGPUs(pod) || snapshot.Ended(pod) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.remember {
		p.gone = append(p.gone, endedAt(pod, metav1.NewTime(p.clock.Now())))
	}
}

// forget stops remembering Pods that are gone until each is called again.
func (p *pods) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remember, p.gone = false, nil
}

// stop ends the use of caches that start has begun, after their context has ended.
func (p *pods) stop() {
	p.forget()
	p.nodes, p.others, p.synced = nil, nil, nil
}

// endedAt returns a Pod that has ended; at the given time, unless its containers say when.
func endedAt(pod *corev1.Pod, at metav1.Time) *corev1.Pod {
	ended := pod.DeepCopy() // caches are never changed
	ended.Status.Phase = corev1.PodFailed
	if _, known := gpuqueue.EndedAt(ended); !known {
		ended.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at}}}}
	}
	return ended
}

// each calls a function for each Pod. Those that are gone are forgotten then.
func (p *pods) each(taskPods corelisters.PodLister, do func(*corev1.Pod)) error {
	p.mu.Lock()
	gone := p.gone
	p.remember, p.gone = true, nil
	p.mu.Unlock()
	for _, pod := range gone {
		do(pod)
	}
	for _, lister := range []corelisters.PodLister{taskPods, p.others} {
		listed, err := lister.List(labels.Everything())
		if err != nil {
			return err
		}
		for _, pod := range listed {
			do(pod)
		}
	}
	return nil
}

func (p *pods) node(name string) *corev1.Node {
	node, err := p.nodes.Get(name)
	if err != nil {
		return nil // a lister's only error is not found
	}
	return node
}
