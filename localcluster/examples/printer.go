// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"fmt"
	"io"
	"time"

	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// printer writes one line for each change of an example that matters to users.
type printer struct {
	out   io.Writer
	clock clock.PassiveClock
	begin time.Time
	width int
}

func newPrinter(out io.Writer, clock clock.PassiveClock, tasks []*v1.GPUTask) *printer {
	width := 0
	for _, task := range tasks {
		width = max(width, len(task.Name))
	}
	return &printer{out: out, clock: clock, begin: clock.Now(), width: width}
}

func (p *printer) change(before, after *v1.GPUTask) {
	if move := after.Status.LastMove; before != nil && move != nil && after.Status.Moves > before.Status.Moves {
		p.line(after, "Moved", "MovePlan "+move.Plan+" makes it start elsewhere")
	}
	if before != nil && before.Status.Phase == after.Status.Phase && before.Status.Message == after.Status.Message {
		return
	}
	phase, message := string(after.Status.Phase), after.Status.Message
	if phase == "" {
		phase, message = "Created", ""
	}
	p.line(after, phase, message)
}

func (p *printer) line(task *v1.GPUTask, what, message string) {
	fmt.Fprintf(p.out, "%6.1fs  %-*s  %-9s  %s\n", p.clock.Since(p.begin).Seconds(), p.width, task.Name, what, message)
}
