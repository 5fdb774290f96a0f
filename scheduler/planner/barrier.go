// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Barrier tells that a Pod's seat of a plan is reserved. wait is true if others of
// its gang have to come first; once the last one has, all go on. An error means that
// the Pod can't go on.
func (p *Planner) Barrier(uid types.UID, number uint64) (wait bool, err error) {
	if !p.mirror.Intact(uid) {
		_, actions := p.registry.Withdraw(uid, number)
		p.do(actions)
		return false, errors.New("the node or its GPUs have changed")
	}
	open, refused, others, actions := p.registry.Barrier(uid, number)
	switch {
	case refused:
		return false, errors.New("its gang's plan was given up")
	case !open:
		return true, nil
	}
	waiting := make([]fwk.WaitingPod, len(others))
	for i, other := range others {
		if waiting[i] = p.handle.GetWaitingPod(other); waiting[i] == nil || !p.mirror.Intact(other) {
			return false, p.closeAgain(append(others, uid), number)
		}
	}
	for _, one := range waiting {
		one.Allow(config.GangPlugin)
	}
	p.do(actions)
	return false, nil
}

// closeAgain turns a whole gang away: one of them was lost while it gathered.
func (p *Planner) closeAgain(uids []types.UID, number uint64) error {
	for _, uid := range uids {
		_, actions := p.registry.Withdraw(uid, number)
		actions.Reject = []types.UID{uid}
		p.do(actions)
	}
	return errors.New("a Pod of the gang, or its node, has changed")
}

// Withdraw tells that a Pod does not go to its seat of a plan after all. If that
// ends a plan that others waited for, the gang is not tried again at once: the
// reason may be a lasting one that the engine does not know.
func (p *Planner) Withdraw(uid types.UID, number uint64) {
	member := p.registry.Member(uid)
	aborts, actions := p.registry.Withdraw(uid, number)
	if aborts > 0 {
		longest := longestAbortPause
		if p.registry.Runs(member.Group()) {
			longest = again // those that run wait for it
		}
		p.failFor(member, min(abortPause<<min(aborts-1, 10), longest))
	}
	p.do(actions)
}

// RejectedByOtherPlugin tells that another plugin has refused a Pod before its turn to be placed
// came. Its gang does not wait for it at the barrier.
func (p *Planner) RejectedByOtherPlugin(uid types.UID) {
	member := p.registry.Member(uid)
	if member == nil {
		return
	}
	if seat, seated := p.registry.SeatOf(uid); seated {
		_, actions := p.registry.Withdraw(uid, seat.Plan)
		p.do(actions)
	}
	p.failFor(member, abortPause)
}

// abortPause is how long a gang whose plan was given up is not tried again; it
// doubles each time up to longestAbortPause, as a plan that is never completed keeps
// its places until the barrier's time is over.
const (
	abortPause        = 2 * time.Second
	longestAbortPause = 5 * time.Minute
)

func (p *Planner) failFor(member *gangs.Member, pause time.Duration) {
	if member == nil {
		return
	}
	now := p.clock.Now()
	p.registry.Fail(member.Group(), now, now.Add(pause))
}

// Refuse tells that the node where a Pod has its seat does not take it, for a
// reason that the engine does not know. It returns what that leads to, in words.
func (p *Planner) Refuse(uid types.UID, number uint64, node string) string {
	member := p.registry.Member(uid)
	if member == nil {
		return ""
	}
	again, actions := p.registry.Refuse(uid, number, node)
	p.do(actions)
	if !again {
		p.failFor(member, longestPause)
		return fmt.Sprintf("%d nodes with room refused a Pod in a row", p.args.MaxRefusals+1)
	}
	p.activate([]*corev1.Pod{member.Pod()})
	return fmt.Sprintf("node %s refused it, others are tried", node)
}
