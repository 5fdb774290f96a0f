// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Barrier records that a Pod has reserved its seat of a plan. wait is true if others of
// its gang have to come first; once the last one has, all proceed. An error means that
// the Pod can't proceed.
func (p *Planner) Barrier(uid types.UID, number uint64) (wait bool, err error) {
	if !p.mirror.Intact(uid) {
		p.do(p.registry.Withdraw(uid, number).Actions)
		return false, errors.New("the node or its GPUs have changed")
	}
	arrival := p.registry.Barrier(uid, number)
	switch {
	case arrival.Refused:
		return false, errors.New("its gang's plan was aborted")
	case !arrival.Open:
		return true, nil
	}
	waiting := make([]fwk.WaitingPod, len(arrival.Allow))
	for i, other := range arrival.Allow {
		if waiting[i] = p.handle.GetWaitingPod(other); waiting[i] == nil || !p.mirror.Intact(other) {
			return false, p.rejectGang(append(arrival.Allow, uid), number)
		}
	}
	for _, one := range waiting {
		one.Allow(config.GangPlugin)
	}
	p.do(arrival.Actions)
	return false, nil
}

// rejectGang rejects a whole gang: one of its Pods was lost while they gathered.
func (p *Planner) rejectGang(uids []types.UID, number uint64) error {
	for _, uid := range uids {
		actions := p.registry.Withdraw(uid, number).Actions
		actions.Reject = []types.UID{uid}
		p.do(actions)
	}
	return errors.New("a Pod of the gang, or its node, has changed")
}

// Withdraw gives up a Pod's seat of a plan. If that ends a plan that others waited for,
// the gang is not retried at once: the reason may be a lasting one that the engine does
// not know.
func (p *Planner) Withdraw(uid types.UID, number uint64) { p.withdraw(uid, number) }

// Unreserve is Withdraw for a Pod that had reserved its seat: that it does not go there may have to do with the node.
// An error before that need not, such as one of a scheduler extender, which fails for all Pods.
func (p *Planner) Unreserve(uid types.UID, number uint64) {
	if fault := p.withdraw(uid, number); fault != "" {
		p.problems.BindingFailed(fault)
	}
}

// withdraw returns the node of the seat if the Pod did not wait there for others.
func (p *Planner) withdraw(uid types.UID, number uint64) (node string) {
	member := p.registry.Member(uid)
	withdrawal := p.registry.Withdraw(uid, number)
	if withdrawal.Aborts > 0 {
		longest := longestAbortPause
		if p.registry.Runs(member.Group()) {
			longest = fallbackRetry // the members that run wait for it
		}
		p.backOff(member, min(abortPause<<min(withdrawal.Aborts-1, 10), longest))
	}
	p.do(withdrawal.Actions)
	return withdrawal.Fault
}

// RejectedByOtherPlugin records that another plugin rejected a Pod before it was placed.
// Its gang does not wait for it at the barrier.
func (p *Planner) RejectedByOtherPlugin(uid types.UID) {
	member := p.registry.Member(uid)
	if member == nil {
		return
	}
	if seat, hasSeat := p.registry.SeatOf(uid); hasSeat {
		p.do(p.registry.Withdraw(uid, seat.Plan).Actions)
	}
	p.backOff(member, abortPause)
}

// abortPause is how long a gang whose plan was given up is not retried; it doubles each
// time up to longestAbortPause, as a plan that is never completed holds its places until
// the barrier times out.
const (
	abortPause        = 2 * time.Second
	longestAbortPause = 5 * time.Minute
)

func (p *Planner) backOff(member *gangs.Member, pause time.Duration) {
	if member == nil {
		return
	}
	now := p.clock.Now()
	p.registry.Fail(member.Group(), now, now.Add(pause))
}

// RefusedByAll records that a Pod whose profile chooses the node was refused by all nodes
// that have room for it.
func (p *Planner) RefusedByAll(uid types.UID, statuses fwk.NodeToStatusReader, order map[string]int) {
	member := p.registry.Member(uid)
	if member == nil {
		return
	}
	plugins := map[string]bool{}
	for node := range order {
		plugins[statuses.Get(node).Plugin()] = true
	}
	now, again := p.clock.Now(), p.filters.RefusedByAll(member, slices.Sorted(maps.Keys(plugins)))
	if again.IsZero() {
		again = now.Add(fallbackRetry)
	}
	p.registry.FailUntil(member.Group(), now, now.Add(shortestPause), again)
}

// Refuse records that the node where a Pod has its seat does not take it, for a reason
// that the engine does not know. It returns the consequence, as a message.
func (p *Planner) Refuse(ctx context.Context, uid types.UID, number uint64, node string) string {
	member := p.registry.Member(uid)
	if member == nil {
		return ""
	}
	p.filters.Distrust(member)
	p.evictor.EndStaleNominations(context.WithoutCancel(ctx), node, p.kept.has) // they may be why
	retry, actions := p.registry.Refuse(uid, number, node)
	p.do(actions)
	if !retry {
		now := p.clock.Now()
		p.registry.Pause(member.Group(), now, now.Add(longestPause))
		return fmt.Sprintf("%d nodes with room refused a Pod in a row", p.args.MaxRefusals+1)
	}
	p.activate([]*corev1.Pod{member.Pod()})
	return fmt.Sprintf("node %s refused it, trying other nodes", node)
}

// Bind binds a Pod to the node of its seat of a plan, with the names of its cards. When
// it returns, the outcome is known. The seat may be taken away at any time, and the Pod
// may even have another one before its Binding is retried: the plan's number tells them
// apart.
func (p *Planner) Bind(ctx context.Context, pod *corev1.Pod, node string, plan uint64) error {
	if member := p.registry.Member(pod.UID); member != nil {
		pod = member.Pod() // the latest version
	}
	return p.binder.Bind(ctx, pod, node, func() (string, error) {
		if seat, hasSeat := p.registry.SeatOf(pod.UID); !hasSeat || seat.Plan != plan || seat.Node != node {
			return "", fmt.Errorf("the Pod no longer has its place on node %s", node)
		}
		return p.mirror.Assignment(pod)
	})
}
