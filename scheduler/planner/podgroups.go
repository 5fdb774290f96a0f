// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"

	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/podgroups"
)

// watchPodGroups tells the registry about the PodGroups of others until ctx ends.
func (p *Planner) watchPodGroups(ctx context.Context) {
	config := p.handle.KubeConfig()
	if config == nil {
		return
	}
	if err := podgroups.Run(ctx, config, p.clock, groupListener{p}); err != nil {
		p.logger.Error(err, "PodGroups can't be watched; the Pods that name one wait")
	}
}

// groupListener implements podgroups.Listener.
type groupListener struct{ planner *Planner }

func (l groupListener) SetGroups(api snapshot.GroupAPI, state gangs.GroupsState) {
	l.planner.do(l.planner.registry.SetGroups(api, state))
}

func (l groupListener) ObserveGroup(ref snapshot.GroupRef, group snapshot.PodGroup) {
	labels, err := group.Labels(ref, l.planner.args.Levels())
	l.planner.do(l.planner.registry.ObserveGroup(ref, labels, err))
}

func (l groupListener) ForgetGroup(ref snapshot.GroupRef) {
	l.planner.do(l.planner.registry.ForgetGroup(ref))
}
