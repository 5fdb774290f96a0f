// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"

	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/unschedulable"
)

// startReports lets autoscalers know of the members of gangs that find no place, if the
// arguments say so, until ctx ends.
func (p *Planner) startReports(ctx context.Context) {
	if !p.args.ReportUnschedulableMembers {
		return
	}
	p.reports = unschedulable.New(p.handle.ClientSet(), p.clock, p.registry, p.term.MayAct, p.makingRoom)
	go p.reports.Run(ctx)
}

// reportMembers records that an attempt has found no place for a gang, and why. It is to be
// called for a gang that may need more nodes: not for one that is wrong or waits for a place
// that is kept for it.
func (p *Planner) reportMembers(group *gangs.Group, text string) {
	if p.reports != nil && !group.Alone {
		p.reports.Report(group.Key, text)
	}
}

// makingRoom reports whether Pods leave for a gang.
func (p *Planner) makingRoom(group string) bool {
	return p.preemptions.underWay(group) || p.claims.clearing(group)
}

// underWay reports whether the victims of a gang are being deleted.
func (p *preemptions) underWay(group string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[group]
}

// clearing reports whether a gang claims nodes that Pods leave for it.
func (c *claims) clearing(group string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.list[group]
	return one != nil && !one.starving
}
