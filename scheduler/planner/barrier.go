// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/scheduler/config"
)

// Barrier tells that a Pod's seat is reserved. wait is true if others of its gang
// have to come first; once the last one has, all go on. An error means that the
// Pod can't go on.
func (p *Planner) Barrier(uid types.UID) (wait bool, err error) {
	if !p.mirror.Intact(uid) {
		p.do(p.registry.Withdraw(uid))
		return false, fmt.Errorf("the node or its GPUs have changed")
	}
	open, refused, allow, actions := p.registry.Barrier(uid)
	if refused {
		return false, fmt.Errorf("its gang's plan was given up")
	}
	if !open {
		return true, nil
	}
	for _, other := range allow {
		if !p.mirror.Intact(other) {
			return false, p.closeAgain(uid, allow)
		}
	}
	for _, other := range allow {
		if waiting := p.handle.GetWaitingPod(other); waiting != nil {
			waiting.Allow(config.GangPlugin)
		}
	}
	p.do(actions)
	return false, nil
}

// closeAgain turns a whole gang away: a node changed while it gathered.
func (p *Planner) closeAgain(uid types.UID, others []types.UID) error {
	for _, other := range append(others, uid) {
		actions := p.registry.Withdraw(other)
		actions.Reject = []types.UID{other}
		p.do(actions)
	}
	return fmt.Errorf("a node of the gang has changed")
}

// Withdraw tells that a Pod does not go to its node after all.
func (p *Planner) Withdraw(uid types.UID) { p.do(p.registry.Withdraw(uid)) }

// Refuse tells that the node where a Pod has its seat does not take it, for a
// reason that the engine does not know. It returns what that leads to, in words.
func (p *Planner) Refuse(uid types.UID, node string) string {
	member := p.registry.Member(uid)
	if member == nil {
		return ""
	}
	pod, group := member.Pod, member.Group()
	again, actions := p.registry.Refuse(uid, node)
	p.do(actions)
	if !again {
		now := p.clock.Now()
		p.registry.Fail(group, now, now.Add(longestPause))
		return fmt.Sprintf("%d nodes with room refused a Pod in a row", p.args.MaxRefusals+1)
	}
	p.activate(podList(pod))
	return fmt.Sprintf("node %s refused it, others are tried", node)
}
