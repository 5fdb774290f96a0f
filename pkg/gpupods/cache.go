// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpupods caches what decides which GPUs are held by whom: the Nodes, and the Pods of tasks and of others.
// Those of tasks are cached by the caller anyway; the rest is cached from when somebody wants it. A reader that
// integrates over time is also shown the Pods that have gone meanwhile.
package gpupods

import (
	"context"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/pkg/trimming"
)

// ReasonDeleted is the reason in the status of a Pod that was deleted before it ended, as Each shows it.
const ReasonDeleted = "DeletedBeforeItEnded"

// Dependencies are what a Cache needs.
type Dependencies struct {
	Kube kubernetes.Interface
	// NodeInformers caches Nodes, trimmed at most as trimming.ForController does; Run starts it, unless somebody else
	// has.
	NodeInformers informers.SharedInformerFactory
	// TaskPods is the informer of the Pods of tasks; the caller starts it, and it has synced when Run is called.
	// Namespace is its namespace; empty for all.
	TaskPods  coreinformers.PodInformer
	Namespace string
	Clock     clock.PassiveClock
}

// Cache caches Nodes and Pods. It is safe for concurrent use.
type Cache struct {
	deps Dependencies
	// wanted is closed when Nodes and the Pods of others are wanted.
	wanted chan struct{}
	want   func()
	// withoutGPUs keeps Pods that hold only other resources, too.
	withoutGPUs bool
	// onChange are called when a Pod that holds resources has changed.
	onChange []func()

	mu sync.Mutex
	// nodes and others are nil while they are not cached.
	nodes   corelisters.NodeLister
	others  coreinformers.PodInformer
	synced  []cache.InformerSynced
	readers []*Reader
}

// New returns a Cache.
func New(ctx context.Context, deps Dependencies) (*Cache, error) {
	c := &Cache{deps: deps, wanted: make(chan struct{})}
	c.want = sync.OnceFunc(func() { close(c.wanted) })
	_, err := informer.Handle(ctx, deps.TaskPods.Informer(), c.handler())
	return c, err
}

// OnChange has a function called when a Pod that holds resources has come, changed or gone. It is to be called before
// any informer of Pods runs.
func (c *Cache) OnChange(changed func()) { c.onChange = append(c.onChange, changed) }

// KeepWithoutGPUs has Pods of others kept that hold only other resources, too. Otherwise only their names are. It is to
// be called before Want.
func (c *Cache) KeepWithoutGPUs() { c.withoutGPUs = true }

// Want has Run cache Nodes and the Pods of others from now on.
func (c *Cache) Want() { c.want() }

// Run caches what is wanted until ctx ends.
func (c *Cache) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-c.wanted:
	}
	nodes := c.deps.NodeInformers.Core().V1().Nodes()
	// Pods that have ended are among them: their status says when, and how.
	others := informers.NewSharedInformerFactoryWithOptions(c.deps.Kube, 0, informers.WithTransform(c.reduce(trimming.ForController().Transform)),
		informers.WithTweakListOptions(func(list *metav1.ListOptions) {
			if c.deps.Namespace == metav1.NamespaceAll { // otherwise tasks of other namespaces are among them, too
				list.LabelSelector = v1.SelectorOfOthers
			}
		})).Core().V1().Pods()
	if _, err := informer.Handle(ctx, others.Informer(), c.handler()); err != nil {
		klog.FromContext(ctx).Error(err, "GPU time of Pods that are deleted is counted up to the last pass only")
	}
	c.set(nodes.Lister(), others, []cache.InformerSynced{nodes.Informer().HasSynced, others.Informer().HasSynced})
	defer c.set(nil, nil, nil)
	c.deps.NodeInformers.StartWithContext(ctx)
	others.Informer().RunWithContext(ctx)
}

func (c *Cache) set(nodes corelisters.NodeLister, others coreinformers.PodInformer, synced []cache.InformerSynced) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes, c.others, c.synced = nodes, others, synced
}

// reduce drops almost everything of Pods that don't matter, of which there may be many, and otherwise does as another
// transform.
func (c *Cache) reduce(trim cache.TransformFunc) cache.TransformFunc {
	return func(object any) (any, error) {
		if pod, ok := object.(*corev1.Pod); ok && !snapshot.WantsGPUs(pod) && (!c.withoutGPUs || !isRunning(pod)) {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}}, nil
		}
		return trim(object)
	}
}

// isRunning reports whether a Pod holds resources of a node.
func isRunning(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && !podfacts.Ended(pod) }

// HasSynced reports whether what is wanted is cached.
func (c *Cache) HasSynced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.synced) > 0 && !slices.ContainsFunc(c.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

// Node returns a Node, nil if it is not known.
func (c *Cache) Node(name string) *corev1.Node {
	c.mu.Lock()
	nodes := c.nodes
	c.mu.Unlock()
	if nodes == nil {
		return nil
	}
	node, err := nodes.Get(name)
	if err != nil {
		return nil // a lister's only error is not found
	}
	return node
}

// Nodes returns all Nodes, none while they are not cached.
func (c *Cache) Nodes() ([]*corev1.Node, error) {
	c.mu.Lock()
	nodes := c.nodes
	c.mu.Unlock()
	if nodes == nil {
		return nil, nil
	}
	return nodes.List(labels.Everything())
}

// ResourceVersion returns a version of the Pods all changes up to which are in the cache, 0 if it is not known.
func (c *Cache) ResourceVersion() uint64 {
	c.mu.Lock()
	others := c.others
	c.mu.Unlock()
	if others == nil {
		return 0
	}
	return min(versionOf(c.deps.TaskPods.Informer()), versionOf(others.Informer()))
}

func versionOf(pods cache.SharedIndexInformer) uint64 {
	version, err := strconv.ParseUint(pods.LastSyncResourceVersion(), 10, 64)
	if err != nil {
		return 0 // it has not synced
	}
	return version
}

// Running returns the Pods that hold resources. Without KeepWithoutGPUs, those of others without GPUs are not among
// them.
func (c *Cache) Running() ([]*corev1.Pod, error) {
	pods, err := c.list()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return !isRunning(pod) }), nil
}

// list returns all Pods, each once: one whose labels have changed may be in both caches for a moment, and with
// Dependencies.Namespace tasks' Pods are.
func (c *Cache) list() ([]*corev1.Pod, error) {
	c.mu.Lock()
	others := c.others
	c.mu.Unlock()
	pods, err := c.deps.TaskPods.Lister().List(labels.Everything())
	if err != nil || others == nil {
		return pods, err
	}
	ofOthers, err := others.Lister().List(labels.Everything())
	return unite(pods, ofOthers), err
}

// unite appends Pods to others without those that are among these. Only the UIDs of the latter are collected.
func unite(pods, more []*corev1.Pod) []*corev1.Pod {
	known := make(sets.Set[types.UID], len(pods))
	for _, pod := range pods {
		known.Insert(pod.UID)
	}
	for _, pod := range more {
		if !known.Has(pod.UID) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func (c *Cache) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(pod any) { c.changed(pod) },
		UpdateFunc: func(before, after any) { c.changed(before, after) },
		DeleteFunc: func(pod any) { c.deleted(pod); c.changed(pod) },
	}
}

// changed calls the functions of OnChange if a Pod holds resources in one of its states.
func (c *Cache) changed(states ...any) {
	if !slices.ContainsFunc(states, func(state any) bool {
		pod, ok := informer.LastKnown(state).(*corev1.Pod)
		return ok && isRunning(pod)
	}) {
		return
	}
	for _, call := range c.onChange {
		call()
	}
}

// deleted shows all readers a Pod that is gone.
func (c *Cache) deleted(object any) {
	pod, ok := informer.LastKnown(object).(*corev1.Pod)
	if !ok || !snapshot.WantsGPUs(pod) {
		return
	}
	pod = Gone(pod, metav1.NewTime(c.deps.Clock.Now()))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, reader := range c.readers {
		if reader.remember {
			reader.gone = append(reader.gone, pod)
		}
	}
}

// Gone returns a Pod that no longer exists as one that has ended: at the given time, unless its containers say when.
func Gone(pod *corev1.Pod, at metav1.Time) *corev1.Pod {
	if podfacts.Ended(pod) {
		return pod
	}
	ended := pod.DeepCopy() // caches are never changed
	ended.Status.Phase, ended.Status.Reason = corev1.PodFailed, ReasonDeleted
	if _, known := podfacts.EndedAt(ended); !known {
		at = metav1.NewTime(podfacts.NodeTime(pod, at.Time))
		ended.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at}}}}
	}
	return ended
}

// Reader sees Pods that are gone until it was shown them once.
type Reader struct {
	cache *Cache
	// remember is true between the first Each and Forget. The cache's mutex protects both.
	remember bool
	gone     []*corev1.Pod
}

// NewReader returns a Reader, which remembers nothing yet.
func (c *Cache) NewReader() *Reader {
	c.mu.Lock()
	defer c.mu.Unlock()
	reader := &Reader{cache: c}
	c.readers = append(c.readers, reader)
	return reader
}

// Forget stops remembering Pods that are gone until Each is called again.
func (r *Reader) Forget() {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	r.remember, r.gone = false, nil
}

// Each calls a function for each Pod: those in the cache, and those that are gone since the last call, each once. A Pod
// that was deleted this moment may be shown only by the next call. A Pod without GPUs may be shown without its spec.
func (r *Reader) Each(do func(*corev1.Pod)) error {
	c := r.cache
	c.mu.Lock()
	r.remember = true
	c.mu.Unlock()
	pods, err := c.list()
	if err != nil {
		return err
	}
	c.mu.Lock()
	gone := r.gone
	r.gone = nil
	c.mu.Unlock()
	for _, pod := range unite(gone, pods) {
		do(pod)
	}
	return nil
}
