// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// TaskColumns selects what a list of tasks shows.
type TaskColumns struct {
	// Namespaces adds the tasks' namespaces.
	Namespaces bool
	// Wide adds all other columns, and shows messages in full.
	Wide bool
}

// messageLength is the length to which messages are truncated in a list.
const messageLength = 72

// Tasks writes a table of tasks.
func Tasks(p *Page, tasks []v1.GPUTask, columns TaskColumns) {
	heading := []string{"NAME", "PHASE", "GPU", "GPUS/POD", "RUNNING", "PRIORITY", "AGE"}
	if columns.Namespaces {
		heading = append([]string{"NAMESPACE"}, heading...)
	}
	if columns.Wide {
		heading = append(heading, "POOL", "RESTARTS", "MOVES", "NODES")
	}
	t := newTable(append(heading, "MESSAGE")...)
	for i := range tasks {
		t.add(taskRow(p, &tasks[i], columns)...)
	}
	t.write(p)
}

func taskRow(p *Page, task *v1.GPUTask, columns TaskColumns) []any {
	row := []any{
		task.Name, Phase(task.Status.Phase), orAny(task.Spec.GPU), amount(task),
		fmt.Sprintf("%d/%d", task.Status.Running, gputask.Replicas(task)), orNone(task.Spec.Priority), p.Age(task.CreationTimestamp.Time),
	}
	if columns.Namespaces {
		row = append([]any{task.Namespace}, row...)
	}
	message := oneLine(task.Status.Message)
	if columns.Wide {
		return append(row, orAny(task.Spec.NodePool), fmt.Sprint(task.Status.Restarts), fmt.Sprint(task.Status.Moves), orNone(abbreviate(task.Status.Nodes, 3)), message)
	}
	return append(row, truncate(message, messageLength))
}

// Phase returns a phase in its colour.
func Phase(phase v1.GPUTaskPhase) Cell {
	styles := map[v1.GPUTaskPhase]Style{
		v1.PhaseWaiting: Blue, v1.PhasePending: Yellow, v1.PhaseRunning: Green, v1.PhaseSucceeded: Faint,
		v1.PhaseFailed: Red, v1.PhaseSuspended: Purple,
	}
	if phase == "" {
		return Cell{Text: "New"}
	}
	return Cell{Text: string(phase), Style: styles[phase]}
}

func orAny(text string) string {
	if text == "" {
		return "any"
	}
	return text
}

// amount returns how many GPUs each Pod requests.
func amount(task *v1.GPUTask) string {
	if task.Spec.GPUAmount == "" {
		return "1"
	}
	return task.Spec.GPUAmount
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// requestText describes what a task requests.
func requestText(task *v1.GPUTask) []string {
	each := amount(task) + " GPU"
	if each != "1 GPU" && !strings.HasPrefix(each, "0.") {
		each += "s"
	}
	if strings.HasPrefix(each, "0.") {
		each = amount(task) + " of a GPU"
	}
	if task.Spec.GPU != "" {
		each += " of " + task.Spec.GPU
	}
	if task.Spec.GPUMemory != "" {
		each += " with at least " + task.Spec.GPUMemory + " of memory each"
	}
	parts := []string{each}
	if task.Spec.CPU != "" {
		parts = append(parts, task.Spec.CPU+" CPU")
	}
	if task.Spec.Memory != "" {
		parts = append(parts, task.Spec.Memory+" memory")
	}
	lines := []string{strings.Join(parts, ", ")}
	if replicas := gputask.Replicas(task); replicas > 1 {
		lines[0] = fmt.Sprintf("%d Pods, each %s", replicas, lines[0])
		if least := gputask.MinAvailable(task); least < replicas {
			lines = append(lines, fmt.Sprintf("at least %d of them together", least))
		} else {
			lines = append(lines, "all of them together")
		}
	}
	if topology := task.Spec.Topology; topology != nil {
		wish := "if possible in one " + topology.Level
		if topology.Mode == v1.TopologyRequired {
			wish = "only in one " + topology.Level
		}
		lines = append(lines, wish)
	}
	if task.Spec.NodePool != "" {
		lines = append(lines, "in node pool "+task.Spec.NodePool)
	}
	return lines
}
