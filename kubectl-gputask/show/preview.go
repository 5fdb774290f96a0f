// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

// Preview writes the plan that would be proposed, or why there is none.
func Preview(p *Page, plan *v1.MovePlan, report *reschedule.Report) {
	if plan == nil {
		p.Printf("Nothing would be moved: %s\n", cmp.Or(report.Why, "there is nothing to gain"))
	} else {
		Plan(p, plan)
	}
	t := newTable("TASK", "ACTION")
	for _, verdict := range report.Waiting {
		t.add(verdict.Task.Namespace+"/"+verdict.Task.Name, oneLine(verdict.Message))
	}
	t.sectionIfAny(p, "Tasks that wait")
	for _, stale := range report.Stale {
		p.Printf("\nMovePlan %s no longer applies: %s\n", stale.Plan.Name, stale.Why)
	}
	list := make([]string, 0, len(report.Problems))
	for _, problem := range report.Problems {
		list = append(list, problem.Error())
	}
	problems(p, list)
}

// PlanLine returns the progress of a plan in one line.
func PlanLine(p *Page, plan *v1.MovePlan) string {
	phase := planPhase(plan)
	line := p.Paint(phase.Style, phase.Text) + spaces(len("Executing")-len(phase.Text))
	line += fmt.Sprintf("  %d/%d moved", plan.Status.Moved, len(plan.Spec.Moves))
	if plan.Status.Message != "" {
		line += "  " + oneLine(plan.Status.Message)
	}
	return line
}
