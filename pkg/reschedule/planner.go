// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

// Planner decides on moves in one view of a cluster. It is for one goroutine.
type Planner struct {
	*clusterview.View
	Options Options
	// Ledger is what moves have cost lately.
	Ledger *Ledger

	// toStay remembers why units may not be moved now: nothing for those that may.
	toStay map[*clusterview.Unit]string
	// proposals are the plans that wait for their approval.
	proposals []*v1.MovePlan
}

// NewPlanner returns a planner. The Options are those of DefaultOptions if there are
// none.
func NewPlanner(view *clusterview.View, o *Options) *Planner {
	p := &Planner{
		View: view, Options: DefaultOptions(), Ledger: NewLedger(view.Plans, view.Now),
		toStay: map[*clusterview.Unit]string{},
	}
	if o != nil {
		p.Options = *o
	}
	return p
}
