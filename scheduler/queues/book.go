// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// queueBook is what is known of GPUQueues, and what their Pods hold. Without
// GPUQueues it limits nobody but Pods that name one.
type queueBook struct {
	mu    sync.Mutex
	state *State
	// ledger is what the queues hold, for a state and a version of the mirror's holdings.
	ledger        *queueing.Ledger
	ledgerState   *State
	ledgerVersion uint64
	// history is how long Pods ran, learnedAt when the last one of them ended, and recent are those that ended a short
	// time ago: see restore.
	history   *runtimes.History
	learnedAt time.Time
	recent    []endedJob
}

// readQueues takes over what the GPUQueues say, with their present fair-share factors.
func (l *Line) readQueues() {
	if l.source != nil && l.source.Known() {
		l.book.set(NewState(l.source.Tree(), l.source.Queues(), l.Namespace))
	}
}

func (b *queueBook) set(state *State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = state
}

// queues returns what the GPUQueues say.
func (b *queueBook) queues() *State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// RunningPods finds out the queues of Pods that run: once for all of a namespace with the same label.
type RunningPods struct {
	State *State
	known map[accountOfPod]string
}

type accountOfPod struct{ namespace, label string }

// QueueOf returns the queue that a Pod counts for while it runs.
func (r *RunningPods) QueueOf(pod *corev1.Pod) string {
	account := accountOfPod{pod.Namespace, pod.Labels[v1.LabelQueue]}
	queue, known := r.known[account]
	if !known {
		if r.known == nil {
			r.known = map[accountOfPod]string{}
		}
		queue = r.State.QueueOfRunning(account.namespace, account.label)
		r.known[account] = queue
	}
	return queue
}

// ledgerOf returns what the queues hold. It must not be changed.
func (l *Line) ledgerOf(state *State) *queueing.Ledger {
	if known := l.book.knownLedger(state, l.Mirror.HoldingsVersion()); known != nil {
		return known
	}
	holdings, version := l.Mirror.Holdings()
	ledger := queueing.NewLedger(state.Tree())
	for account, percent := range holdings {
		ledger.Add(state.QueueOfRunning(account.Namespace, account.Label), account.Model, queueing.Amount(percent))
	}
	l.book.keepLedger(state, version, ledger)
	return ledger
}

// knownLedger returns what the queues hold, if that is known; else nil.
func (b *queueBook) knownLedger(state *State, version uint64) *queueing.Ledger {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ledgerState != state || b.ledgerVersion != version {
		return nil
	}
	return b.ledger
}

func (b *queueBook) keepLedger(state *State, version uint64, ledger *queueing.Ledger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger, b.ledgerState, b.ledgerVersion = ledger, state, version
}

// Ledger returns what the queues hold, with what those need that nodes are kept for: what becomes free for them is
// theirs, but for the gang that asks. It must not be changed.
func (l *Line) Ledger(state *State, group string) *queueing.Ledger {
	ledger, demands := l.ledgerOf(state), l.core.Demands(group)
	if len(demands) == 0 {
		return ledger
	}
	ledger = ledger.Clone()
	for _, one := range demands {
		for model, amount := range one.Amounts {
			ledger.Add(one.Queue, model, amount)
		}
	}
	return ledger
}

// Admission is whether a gang may start as far as its queue is concerned.
type Admission struct {
	// Waits is why it may not now; empty if it may.
	Waits string
	// Limited is true if that is because of a limit, and Denied if it may not use its queue at all.
	Limited, Denied bool
}

// Admit returns whether a gang may start now as far as its queue is concerned, and what it may ask for then: only a
// part of its optional members, or nothing on the GPUs of some models.
func (l *Line) Admit(attempt *gangs.Attempt, request *gangs.Request) (*gangs.Request, Admission) {
	if l.source != nil && !l.source.Known() {
		return request, Admission{Waits: "gpu-scheduler has just started and is reading the GPUQueues"}
	}
	state := l.State()
	var queue string
	for i, m := range attempt.Waiting {
		assigned := state.QueueOf(m.Pod())
		switch {
		case assigned.Problem != nil:
			return request, Admission{Waits: assigned.Problem.Message, Denied: true}
		case i > 0 && assigned.Queue != queue:
			return request, Admission{Denied: true, Waits: "the Pods of a gang have to be in the same queue; one is in " +
				queueInWords(queue) + " and another one in " + queueInWords(assigned.Queue)}
		}
		queue = assigned.Queue
	}
	if !state.Tree().HasQueues() {
		return request, Admission{} // nothing has a limit, and this is for each Pod
	}
	withKept := l.Ledger(state, attempt.Group.Key)
	confined, admitted := l.fitLimits(withKept, queue, request)
	if ledger := l.ledgerOf(state); admitted.Limited && withKept != ledger {
		admitted.Waits = limitInWords(ledger.Fits(queue, gpuqueue.Least(&confined.Gang)), admitted.Waits)
	}
	return confined, admitted
}

// limitInWords returns why a gang has to wait that exceeds a limit if what is kept for others counts: exceeded is the
// limit that it exceeds in any case, nil for none.
func limitInWords(exceeded *queueing.Excess, counted string) string {
	if exceeded != nil {
		return exceeded.String()
	}
	return counted + "; that counts GPUs that are being given back for others"
}

func queueInWords(queue string) string {
	if queue == queueing.NoQueue {
		return "none"
	}
	return "queue " + queue
}

// fitLimits confines a gang to what the limits of its queue leave. If that is too little, it has to wait.
func (l *Line) fitLimits(ledger *queueing.Ledger, queue string, request *gangs.Request) (confined *gangs.Request, admitted Admission) {
	confined = request.Confined(func(gang *placement.Gang) {
		full, exceeded := gpuqueue.Confine(ledger, queue, gang)
		if len(full) > 0 {
			gang.Except = gangs.Union(gang.Except, l.Mirror.NodesOf(full))
		}
		if exceeded != nil {
			admitted = Admission{Waits: exceeded.String(), Limited: true}
		}
	})
	return confined, admitted
}
