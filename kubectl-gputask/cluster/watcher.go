// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/pkg/trimming"
)

// Watcher keeps an observation up to date, so that looking again costs the API server only
// what has changed. It holds what "top" shows: no budgets and no PriorityClasses; Follower has these, too.
type Watcher struct {
	levels                    snapshot.Levels
	nodes, pods, tasks, plans cache.SharedIndexInformer
}

// WatcherOptions are who is told what a watcher sees.
type WatcherOptions struct {
	Levels snapshot.Levels
	// Warn returns the handler of the errors of a watch.
	Warn func(what string) cache.WatchErrorHandlerWithContext
	// Changed is called after anything has changed, and PodGone after a Pod was deleted; both may be nil, and must not
	// block.
	Changed func()
	PodGone func(*corev1.Pod)
}

// NewWatcher returns a watcher that is up to date, and remains so until ctx is done.
func NewWatcher(ctx context.Context, clients *Clients, options WatcherOptions) (*Watcher, error) {
	core, api := clients.Kube.CoreV1(), clients.Tasks.FalldioV1()
	w := &Watcher{
		levels: options.Levels,
		nodes:  NewInformer(clients.Kube, core.Nodes(), &corev1.Node{}, Everything),
		pods:   NewInformer(clients.Kube, core.Pods(metav1.NamespaceAll), &corev1.Pod{}, Everything),
		tasks:  NewInformer(clients.Tasks, api.GPUTasks(metav1.NamespaceAll), &v1.GPUTask{}, Everything),
		plans:  NewInformer(clients.Tasks, api.MovePlans(), &v1.MovePlan{}, Everything),
	}
	if err := mayList(ctx, clients); err != nil {
		return nil, err
	}
	var synced []cache.InformerSynced
	trimmer := trimming.ForController()
	for what, watched := range map[string]cache.SharedIndexInformer{
		"nodes": w.nodes, "pods": w.pods, "gputasks": w.tasks, "moveplans": w.plans,
	} {
		err := errors.Join(watched.SetTransform(trimmer.Transform), watched.SetWatchErrorHandlerWithContext(options.Warn(what)), options.tell(ctx, watched))
		if err != nil {
			return nil, err
		}
		go watched.RunWithContext(ctx)
		synced = append(synced, watched.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, context.Cause(ctx)
	}
	return w, nil
}

// tell has changes of what an informer watches told.
func (o *WatcherOptions) tell(ctx context.Context, watched cache.SharedIndexInformer) error {
	if o.Changed == nil {
		return nil
	}
	_, err := informer.OnAnyChange(ctx, watched, func(object any, deleted bool) {
		if pod, ok := object.(*corev1.Pod); ok && deleted && o.PodGone != nil {
			o.PodGone(pod)
		}
		o.Changed()
	})
	return err
}

// mayList returns the error of a user who may not list something: an informer would try for
// ever.
func mayList(ctx context.Context, clients *Clients) error {
	core, api := clients.Kube.CoreV1(), clients.Tasks.FalldioV1()
	one := metav1.ListOptions{Limit: 1}
	_, err := core.Nodes().List(ctx, one)
	if err != nil {
		return listError("nodes", err)
	}
	if _, err := core.Pods(metav1.NamespaceAll).List(ctx, one); err != nil {
		return listError("pods", err)
	}
	if _, err := api.GPUTasks(metav1.NamespaceAll).List(ctx, one); err != nil {
		return listError("gputasks", err)
	}
	_, err = api.MovePlans().List(ctx, one)
	return listError("moveplans", err)
}

// Observe returns the cluster as it is now.
func (w *Watcher) Observe(now time.Time) *Observation {
	pods := stored[corev1.Pod](w.pods)
	return &Observation{Objects: clusterview.Objects{
		Tasks: withPods(stored[v1.GPUTask](w.tasks), pods), Nodes: pointers(stored[corev1.Node](w.nodes)), Pods: placed(pods),
		Plans: pointers(stored[v1.MovePlan](w.plans)), Levels: w.levels, Now: now,
	}, Waiting: unplaced(pods)}
}

// stored returns the objects that an informer holds, in the order of their names, as a list
// of the API server has them. They are copies, but share what they point to.
func stored[T any](watched cache.SharedIndexInformer) []T {
	store := watched.GetStore()
	keys := store.ListKeys()
	slices.Sort(keys)
	list := make([]T, 0, len(keys))
	for _, key := range keys {
		object, exists, err := store.GetByKey(key)
		if value, ok := object.(*T); err == nil && exists && ok {
			list = append(list, *value)
		}
	}
	return list
}

// ListerWatcher is the part of a typed client that an informer needs.
type ListerWatcher[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// NewInformer returns an informer for the objects that options select: an informer factory
// would link the informers of every API group. The clientset is the client's.
func NewInformer[L runtime.Object](clientset any, client ListerWatcher[L], example runtime.Object, options func(*metav1.ListOptions)) cache.SharedIndexInformer {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, list metav1.ListOptions) (runtime.Object, error) {
			options(&list)
			return client.List(ctx, list)
		},
		WatchFuncWithContext: func(ctx context.Context, list metav1.ListOptions) (watch.Interface, error) {
			options(&list)
			return client.Watch(ctx, list)
		},
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, clientset), example, 0, cache.Indexers{})
}

// Everything selects all objects.
func Everything(*metav1.ListOptions) {}

// IsInterruption reports whether the error of a watch is worth telling: the API server also
// ends watches in normal operation.
func IsInterruption(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) &&
		!apierrors.IsResourceExpired(err) && !apierrors.IsGone(err)
}
