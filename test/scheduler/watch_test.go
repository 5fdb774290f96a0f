// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// openLedger starts to watch the Nodes, and the Pods of the suite's namespace, which is
// still empty.
func (s *suite) openLedger() *ledger {
	s.Helper()
	l := newLedger()
	nodes, err := s.kube.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range nodes.Items {
		l.node(&nodes.Items[i])
	}
	version := nodes.ResourceVersion
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	var watching sync.WaitGroup
	s.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	s.follow(ctx, &watching, version, cache.WatchFuncWithContext(s.kube.CoreV1().Nodes().Watch), func(event watch.Event) {
		if node, ok := event.Object.(*corev1.Node); ok {
			l.node(node)
		}
	})
	s.follow(ctx, &watching, version, cache.WatchFuncWithContext(s.kube.CoreV1().Pods(s.namespace).Watch), func(event watch.Event) {
		if pod, ok := event.Object.(*corev1.Pod); ok {
			l.pod(event.Type, pod, time.Now())
		}
	})
	return l
}

// follow passes on every event after a resource version, in order, until ctx ends. The test
// fails if any may have been missed.
func (s *suite) follow(ctx context.Context, watching *sync.WaitGroup, version string, from cache.WatchFuncWithContext, take func(watch.Event)) {
	s.Helper()
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: from})
	if err != nil {
		s.Fatal(err)
	}
	watching.Go(func() {
		for event := range watcher.ResultChan() {
			if event.Type == watch.Error && ctx.Err() == nil {
				s.Errorf("the watch has a hole: %v", event.Object)
			}
			take(event)
		}
	})
}
