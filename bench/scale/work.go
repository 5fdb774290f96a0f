// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/test/cluster"
)

const (
	gpuModel = "h100-80gb-hbm3"
	gangSize = 8
	// creators is how many tasks are created at the same time.
	creators = 16
	// churnLength is how long a Pod runs that comes and goes.
	churnLength = 30 * time.Second
)

// durationAnnotation says how long a simulated Pod runs.
const durationAnnotation = "simulation.falldio.com/duration"

// work creates tasks, and counts the Pods that begin to run.
type work struct {
	kube    kubernetes.Interface
	tasks   clientset.Interface
	started atomic.Int64
	created atomic.Int64
}

func newWork(c *cluster.Cluster) (*work, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	w := &work{}
	if w.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	w.tasks, err = clientset.NewForConfig(config)
	return w, err
}

// watch counts the Pods that begin to run until ctx ends.
func (w *work) watch(ctx context.Context) error {
	factory := informers.NewSharedInformerFactoryWithOptions(w.kube, 0, informers.WithTransform(onlyPhase),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = v1.LabelTask }))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.count(nil, object) },
		UpdateFunc: w.count,
	})
	if err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return context.Cause(ctx)
	}
	return nil
}

func (w *work) count(before, after any) {
	if !runs(before) && runs(after) {
		w.started.Add(1)
	}
}

func runs(object any) bool {
	pod, isPod := object.(*corev1.Pod)
	return isPod && pod.Status.Phase == corev1.PodRunning
}

// onlyPhase keeps of a Pod what is counted: the benchmark must not need more memory than what
// it measures.
func onlyPhase(object any) (any, error) {
	pod, isPod := object.(*corev1.Pod)
	if !isPod {
		return object, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase},
	}, nil
}

// fill returns when so many Pods run, a half of them in gangs. They run until the end.
func (w *work) fill(ctx context.Context, pods int) error {
	if err := w.watch(ctx); err != nil {
		return err
	}
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	for range pods / 2 / gangSize {
		group.Go(func() error { return w.create(creating, gangSize, "forever") })
	}
	wanted := pods / 2 / gangSize * gangSize
	for ; wanted < pods; wanted++ {
		group.Go(func() error { return w.create(creating, 1, "forever") })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return w.waitUntilStarted(ctx, int64(pods))
}

// fillLimit is how long nothing may happen while the cluster is filled.
const fillLimit = 5 * time.Minute

func (w *work) waitUntilStarted(ctx context.Context, pods int64) error {
	last, since := int64(-1), time.Now()
	for {
		started := w.started.Load()
		switch {
		case started >= pods:
			return nil
		case started != last:
			last, since = started, time.Now()
		case time.Since(since) > fillLimit:
			return fmt.Errorf("only %d of %d Pods run, and none has begun for %v", started, pods, fillLimit)
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// churn creates so many tasks of one Pod per second until ctx ends. It fails if one is refused: there
// would be less work than the results say.
func (w *work) churn(ctx context.Context, rate int) error {
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(creators)
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for {
		select {
		case <-creating.Done():
			return group.Wait()
		case <-ticker.C:
			group.Go(func() error {
				err := w.create(creating, 1, churnLength.String())
				select {
				case <-ctx.Done():
					return nil // the end of the churn has interrupted it
				default:
					return err
				}
			})
		}
	}
}

// create creates a task whose Pods have one GPU each and run for so long.
func (w *work) create(ctx context.Context, replicas int32, length string) error {
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("work-%d", w.created.Add(1)), Namespace: metav1.NamespaceDefault},
		Spec: v1.GPUTaskSpec{
			GPU: gpuModel, GPUAmount: "1", Replicas: &replicas, TTLSecondsAfterFinished: new(int32(1)),
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{durationAnnotation: length}}},
		},
	}
	_, err := w.tasks.FalldioV1().GPUTasks(task.Namespace).Create(ctx, task, metav1.CreateOptions{})
	return err
}
