// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/queues"
)

// queueBook is what the planner knows of GPUQueues, and what their Pods hold. Without
// GPUQueues it limits nobody, and the order is by priority and age.
type queueBook struct {
	mu sync.Mutex
	// awaited is true until it is known which GPUQueues there are.
	awaited bool
	state   *queues.State
	// ledger is what the queues hold, by state and version of the mirror's holdings.
	ledger        *queueing.Ledger
	ledgerState   *queues.State
	ledgerVersion uint64
	// history is how long Pods ran.
	history *runtimes.History
}

// watchQueues follows the GPUQueues until ctx ends.
func (p *Planner) watchQueues(ctx context.Context) error {
	config := p.handle.KubeConfig()
	if config == nil {
		return nil
	}
	namespaces := p.handle.SharedInformerFactory().Core().V1().Namespaces()
	watcher, err := queues.NewWatcher(config, namespaces.Lister(), p.clock, p.setQueues)
	if err != nil {
		return err
	}
	synced, err := informer.Handle(ctx, namespaces.Informer(), cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { watcher.NamespaceChanged() },
		UpdateFunc: func(old, object any) {
			before, wasNamespace := old.(*corev1.Namespace)
			after, isNamespace := object.(*corev1.Namespace)
			if wasNamespace && isNamespace && !maps.Equal(before.Labels, after.Labels) {
				watcher.NamespaceChanged()
			}
		},
	})
	if err != nil {
		return err
	}
	p.queues.awaited = true
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), synced) {
			watcher.Run(ctx)
		}
	}()
	return nil
}

// setQueues takes over what the GPUQueues say.
func (p *Planner) setQueues(state *queues.State) {
	p.queues.mu.Lock()
	had := p.queues.state != nil && p.queues.state.Any()
	p.queues.awaited, p.queues.state = false, state
	p.queues.mu.Unlock()
	if !had && !state.Any() {
		return
	}
	p.orderWaiting()
	p.wake()
	p.admitTurnedAway()
}

// queueState returns what the GPUQueues say; nil if there are none.
func (p *Planner) queueState() *queues.State {
	p.queues.mu.Lock()
	defer p.queues.mu.Unlock()
	if state := p.queues.state; state != nil && state.Any() {
		return state
	}
	return nil
}

// ledgerOf returns what the queues hold. It must not be changed.
func (p *Planner) ledgerOf(state *queues.State) *queueing.Ledger {
	version := p.mirror.HoldingsVersion()
	p.queues.mu.Lock()
	defer p.queues.mu.Unlock()
	if p.queues.ledger != nil && p.queues.ledgerState == state && p.queues.ledgerVersion == version {
		return p.queues.ledger
	}
	holdings, version := p.mirror.Holdings()
	ledger := queueing.NewLedger(state.Tree())
	for account, percent := range holdings {
		ledger.Add(state.QueueOfRunning(account.Namespace, account.Label), account.Model, queueing.Amount(percent))
	}
	p.queues.ledger, p.queues.ledgerState, p.queues.ledgerVersion = ledger, state, version
	return ledger
}

// admission is whether the queue of a gang lets it start.
type admission struct {
	queue string
	// waits is why not; empty if it does.
	waits string
}

// admit returns whether a gang may start now as far as its queue is concerned. If only a part of its
// optional members may, or none on the GPUs of some models, the gang is changed accordingly.
func (p *Planner) admit(attempt *gangs.Attempt, gang *roles) admission {
	if p.queuesAwaited() {
		return admission{waits: "gpu-scheduler has just started and is reading the GPUQueues"}
	}
	state := p.queueState()
	if state == nil {
		return admission{}
	}
	var queue string
	for i, m := range attempt.Waiting {
		assigned := state.QueueOf(m.Pod())
		switch {
		case assigned.Problem != nil:
			return admission{queue: assigned.Queue, waits: assigned.Problem.Message}
		case i > 0 && assigned.Queue != queue:
			return admission{queue: queue, waits: "the Pods of a gang have to be in the same queue; one is in " +
				queueInWords(queue) + " and another one in " + queueInWords(assigned.Queue)}
		}
		queue = assigned.Queue
	}
	return admission{queue, p.fitLimits(p.ledgerOf(state), queue, gang)}
}

func queueInWords(queue string) string {
	if queue == queueing.NoQueue {
		return "none"
	}
	return "queue " + queue
}

func (p *Planner) queuesAwaited() bool {
	p.queues.mu.Lock()
	defer p.queues.mu.Unlock()
	return p.queues.awaited
}

// fitLimits confines a gang to what the limits of its queue leave, and returns why it has to wait if
// that is too little.
func (p *Planner) fitLimits(ledger *queueing.Ledger, queue string, gang *roles) (waits string) {
	if excess := ledger.Fits(queue, amountsOf(gang, leastOf)); excess != nil {
		return excess.String()
	}
	if ledger.Fits(queue, amountsOf(gang, mostOf)) != nil {
		for i := range gang.Roles {
			gang.Roles[i].Max = gang.Roles[i].Min
		}
	}
	asked := amountsOf(gang, mostOf)
	if anyModel := asked[queueing.AnyModel]; anyModel > 0 {
		if full := ledger.Full(queue, anyModel); len(full) > 0 {
			gang.Except = union(gang.Except, p.mirror.NodesOf(full))
		}
	}
	return ""
}

func leastOf(role *placement.Role) int { return role.Min }
func mostOf(role *placement.Role) int  { return role.Max }

// amountsOf returns the GPUs that a gang asks for, by model; those of roles that accept several
// models count as of any.
func amountsOf(gang *roles, count func(*placement.Role) int) queueing.Amounts {
	amounts := queueing.Amounts{}
	for i := range gang.Roles {
		role := &gang.Roles[i]
		if percent := role.Shape.Percent() * count(role); percent > 0 {
			amounts[modelOf(&role.Shape)] += queueing.Amount(percent)
		}
	}
	return amounts
}

// modelOf returns the model that a shape asks for, or queueing.AnyModel.
func modelOf(shape *placement.Shape) string {
	if len(shape.Models) == 1 {
		return shape.Models[0]
	}
	return queueing.AnyModel
}

// waitInQueue is fail for a gang that its queue does not let start.
func (p *Planner) waitInQueue(attempt *gangs.Attempt, waits string) Decision {
	now := p.clock.Now()
	p.metrics.failed.WithLabelValues("Queue").Inc()
	p.rejections.set(attempt.Group.Key, nil, nil)
	p.registry.FailAttempt(attempt.Group, now, now, now.Add(fallbackRetry))
	return Decision{Waits: waits}
}
