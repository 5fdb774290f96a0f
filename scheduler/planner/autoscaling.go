// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import "falldio.github.io/gpu-controller/scheduler/unschedulable"

// newReporter returns the Reporter that says why gangs wait.
func newReporter(p *Planner) *unschedulable.Reporter {
	return unschedulable.New(unschedulable.Options{
		Client: p.handle.ClientSet(), Clock: p.clock, Gangs: p.registry, Members: p.args.ReportUnschedulableMembers,
		MayWrite: p.term.MayAct, HasProspect: p.makingRoom,
	})
}

// makingRoom reports whether Pods leave for a gang.
func (p *Planner) makingRoom(group string) bool {
	return p.evictor.UnderWay(group) || p.claims.clearing(group)
}

// clearing reports whether a gang claims nodes that Pods leave for it.
func (c *claims) clearing(group string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.list[group]
	return one != nil && !one.starving
}
