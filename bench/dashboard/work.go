// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/test/cluster"
)

// work keeps a number of tasks running: for each that has ended, another one comes.
type work struct {
	client clientset.Interface
	stop   func()
	// created counts the tasks.
	created atomic.Int64
}

const (
	creators = 16
	// shortest and longest are how long tasks run.
	shortest, longest = 30 * time.Second, 90 * time.Second
)

// startWork returns when as many tasks have been created as are to run.
func startWork(ctx context.Context, c *cluster.Cluster, tasks int) (*work, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &work{client: client}
	var running sync.WaitGroup
	w.stop = func() { cancel(); running.Wait() }
	slots := make(chan struct{}, tasks)
	for range creators {
		running.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case slots <- struct{}{}:
				}
				length := shortest + rand.N(longest-shortest) //nolint:gosec // no secret
				if err := w.create(ctx, length); err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "bench/dashboard:", err)
				}
				time.AfterFunc(length, func() { <-slots })
			}
		})
	}
	for w.created.Load() < int64(tasks) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return w, nil
}

func (w *work) create(ctx context.Context, length time.Duration) error {
	number := w.created.Add(1)
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("work-%d", number), Namespace: metav1.NamespaceDefault},
		Spec: v1.GPUTaskSpec{
			GPU: "h100-80gb-hbm3", GPUAmount: "1", TTLSecondsAfterFinished: new(int32(1)),
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"simulation.falldio.com/duration": length.Round(time.Second).String()}}},
		},
	}
	_, err := w.client.FalldioV1().GPUTasks(task.Namespace).Create(ctx, task, metav1.CreateOptions{})
	return err
}
