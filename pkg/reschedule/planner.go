// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

// Planner decides on moves in a view of a cluster. It is not safe for concurrent use.
type Planner struct {
	*clusterview.View
	Options Options
	// Ledger records what moves have cost lately.
	Ledger *Ledger

	// immovable caches the results of immovableReason.
	immovable map[*clusterview.Unit]string
	// proposals are the plans that wait for approval.
	proposals []*v1.MovePlan
}

// NewPlanner returns a planner. Without options it uses those of DefaultOptions.
func NewPlanner(view *clusterview.View, o *Options) *Planner {
	p := &Planner{
		View: view, Options: DefaultOptions(), Ledger: NewLedger(view.Plans, view.Now),
		immovable: map[*clusterview.Unit]string{},
	}
	if o != nil {
		p.Options = *o
	}
	return p
}
