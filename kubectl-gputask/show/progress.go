// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// ProgressLine returns the progress of a task in one line.
func ProgressLine(p *Page, task *v1.GPUTask) string {
	phase := Phase(task.Status.Phase)
	line := p.Paint(phase.Style, phase.Text) + spaces(len("Succeeded")-len(phase.Text))
	if replicas := gputask.Replicas(task); replicas > 1 {
		line += fmt.Sprintf("  %d/%d running", task.Status.Running, replicas)
	}
	if task.Status.Message != "" {
		line += "  " + oneLine(task.Status.Message)
	}
	return line
}

// Progress writes such a line after the time that has passed.
func Progress(p *Page, after time.Duration, line string) {
	p.Printf("%6s  %s\n", span(after), strings.TrimRight(line, " "))
}
