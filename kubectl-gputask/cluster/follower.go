// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/queuewatch"
)

// slowPeriod is how often what seldom changes is listed. The roles for viewers let them list it, not watch it.
const slowPeriod = 10 * time.Second

// Follower keeps a whole observation up to date, with the queues, the budgets and the PriorityClasses. It is safe for
// concurrent use.
type Follower struct {
	*Watcher
	clients *Clients
	clock   clock.WithTicker
	queues  *queuewatch.Watcher
	changed func()

	mu   sync.Mutex
	slow slow
}

// slow is what seldom changes.
type slow struct {
	budgets    []*policyv1.PodDisruptionBudget
	priorities Priorities
	namespaces []*corev1.Namespace
	// queuesUnknown is why the queues are not known.
	queuesUnknown string
}

// NewFollower returns a follower that is up to date, and remains so until ctx is done.
func NewFollower(ctx context.Context, clients *Clients, options WatcherOptions, clock clock.WithTicker) (*Follower, error) {
	f := &Follower{clients: clients, clock: clock, queues: queuewatch.New(clients.Tasks, clock), changed: options.Changed}
	err := f.list(ctx) // first: what is watched is watched until ctx is done
	if err != nil {
		return nil, err
	}
	if f.Watcher, err = NewWatcher(ctx, clients, options); err != nil {
		return nil, err
	}
	f.queues.OnChange(func(string) { f.changed() })
	go f.queues.Run(ctx)
	go Every(ctx, f.clock, slowPeriod, func() {
		if f.list(ctx) == nil { // else what is known stays
			f.changed()
		}
	})
	return f, nil
}

// list lists what seldom changes.
func (f *Follower) list(ctx context.Context) error {
	var now slow
	all := metav1.ListOptions{}
	budgets, err := f.clients.Kube.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, all)
	if err != nil {
		return listError("poddisruptionbudgets", err)
	}
	classes, err := f.clients.Kube.SchedulingV1().PriorityClasses().List(ctx, all)
	if err != nil {
		return listError("priorityclasses", err)
	}
	now.budgets, now.priorities = pointers(budgets.Items), newPriorities(classes.Items)
	namespaces, err := f.clients.Kube.CoreV1().Namespaces().List(ctx, all)
	switch {
	case err == nil:
		now.namespaces = pointers(namespaces.Items)
	case !apierrors.IsForbidden(err):
		return fmt.Errorf("listing namespaces: %w", err)
	}
	if _, err := f.clients.Tasks.FalldioV1().GPUQueues().List(ctx, metav1.ListOptions{Limit: 1}); apierrors.IsForbidden(err) {
		now.queuesUnknown = queuesForbidden
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = now
	return nil
}

// Observe returns the cluster as it is now.
func (f *Follower) Observe(now time.Time) *Observation {
	f.mu.Lock()
	slow := f.slow
	f.mu.Unlock()
	observed := f.Watcher.Observe(now)
	observed.Budgets, observed.Priorities = slow.budgets, slow.priorities
	observed.Queues = &QueueList{Queues: f.queues.Queues(), Namespaces: slow.namespaces, Unknown: slow.queuesUnknown}
	return observed
}
