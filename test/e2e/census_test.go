// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// census records every Pod that ever existed in a namespace.
type census struct {
	mu sync.Mutex
	// pods are the UIDs of the Pods by name and attempt.
	pods map[string]map[types.UID]struct{}
}

// takeCensus watches the suite's namespace until the test ends.
func (s *suite) takeCensus() *census {
	s.Helper()
	c := &census{pods: map[string]map[types.UID]struct{}{}}
	factory := informers.NewSharedInformerFactoryWithOptions(s.cluster.kube, 0, informers.WithNamespace(s.namespace))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.record,
		UpdateFunc: func(_, object any) { c.record(object) },
	}); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	s.Cleanup(cancel)
	factory.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		s.Fatal("the census did not begin")
	}
	return c
}

func (c *census) record(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := pod.Name + " attempt " + pod.Labels[v1.LabelAttempt]
	if c.pods[key] == nil {
		c.pods[key] = map[types.UID]struct{}{}
	}
	c.pods[key][pod.UID] = struct{}{}
}

// doubles returns the Pods that were created more than once for the same attempt.
func (c *census) doubles() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var doubles []string
	for key, uids := range c.pods {
		if len(uids) > 1 {
			doubles = append(doubles, fmt.Sprintf("%s: %d times", key, len(uids)))
		}
	}
	return doubles
}

// attempts returns how many attempts there were of a Pod.
func (c *census) attempts(pod string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for key := range c.pods {
		if strings.HasPrefix(key, pod+" attempt ") {
			count++
		}
	}
	return count
}
