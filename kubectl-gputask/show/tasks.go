// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// TaskColumns selects what a list of tasks shows.
type TaskColumns struct {
	// Namespaces adds the tasks' namespaces.
	Namespaces bool
	// Wide adds all other columns, and shows messages in full.
	Wide bool
	// NoHeaders leaves out the heading.
	NoHeaders bool
	// Watch keeps the columns where they are, as rows follow.
	Watch bool
}

// messageLength is the length to which messages are truncated in a list.
const messageLength = 72

// TaskTable is a table of tasks that may be written in parts.
type TaskTable struct {
	columns TaskColumns
	table   *table
}

// NewTasks returns an empty table.
func NewTasks(columns TaskColumns) *TaskTable {
	heading := []string{"NAME", "PHASE", "GPU", "GPUS/POD", "PODS", "PRIORITY", "AGE"}
	if columns.Namespaces {
		heading = append([]string{"NAMESPACE"}, heading...)
	}
	if columns.Wide {
		heading = append(heading, "QUEUE", "POOL", "RESTARTS", "MOVES", "NODES")
	}
	t := &TaskTable{columns: columns, table: newTable(append(heading, "MESSAGE")...)}
	t.table.headless = columns.NoHeaders
	if columns.Watch {
		t.table.atLeast("PHASE", len(v1.PhaseSucceeded))
		t.table.atLeast("AGE", 4)
	}
	return t
}

// Write writes rows, below the heading the first time.
func (t *TaskTable) Write(p *Page, tasks []v1.GPUTask) {
	for i := range tasks {
		t.table.add(t.row(p, &tasks[i], Phase(tasks[i].Status.Phase))...)
	}
	if p.Width > 0 && !t.columns.Wide && !t.columns.Watch { // a person reads it
		t.table.dropUniform("GPU", "any")
		t.table.dropUniform("PRIORITY", orNone(""))
	}
	t.table.write(p)
}

// WriteDeleted writes the row of a task that is gone.
func (t *TaskTable) WriteDeleted(p *Page, task *v1.GPUTask) {
	t.table.add(t.row(p, task, Cell{Text: "Deleted", Style: Faint})...)
	t.table.write(p)
}

func (t *TaskTable) row(p *Page, task *v1.GPUTask, phase Cell) []any {
	row := []any{
		task.Name, phase, cmp.Or(task.Spec.GPU, "any"), amount(task),
		podsText(task, "/"), orNone(task.Spec.Priority), p.Age(task.CreationTimestamp.Time),
	}
	if t.columns.Namespaces {
		row = append([]any{task.Namespace}, row...)
	}
	message := p.message(task.Status.Message)
	if t.columns.Wide {
		return append(row, orNone(namedQueue(task)), cmp.Or(task.Spec.NodePool, "any"), task.Status.Restarts, task.Status.Moves, orNone(abbreviate(task.Status.Nodes, 3)), message)
	}
	return append(row, p.cell(message))
}

// cell returns a text for the last column of a table: on a terminal it is cut at its width.
func (p *Page) cell(text string) string {
	if p.Width > 0 {
		return text
	}
	return truncate(text, messageLength)
}

// PhaseOrder is the order of a list: what runs, what waits, what has finished. A new task has no phase.
func PhaseOrder() []v1.GPUTaskPhase {
	return []v1.GPUTaskPhase{v1.PhaseRunning, "", v1.PhasePending, v1.PhaseWaiting, v1.PhaseSuspended, v1.PhaseFailed, v1.PhaseSucceeded}
}

// TasksSummary returns how many tasks are in which phase: "7 tasks: 4 running, 2 pending, 1 failed".
func TasksSummary(tasks []v1.GPUTask) string {
	counts := map[v1.GPUTaskPhase]int{}
	for i := range tasks {
		counts[tasks[i].Status.Phase]++
	}
	var parts []string
	for _, phase := range PhaseOrder() {
		if counts[phase] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[phase], strings.ToLower(Phase(phase).Text)))
		}
	}
	return plural.Count(len(tasks), "task") + ": " + strings.Join(parts, ", ")
}

// podsText returns how many Pods of a task run, or have succeeded once it has finished: "1/3", "3/3 done".
func podsText(task *v1.GPUTask, of string) string {
	if gputask.IsFinished(task) {
		return fmt.Sprintf("%d%s%d done", task.Status.Succeeded, of, gputask.Total(task))
	}
	return fmt.Sprintf("%d%s%d", task.Status.Running, of, gputask.Replicas(task))
}

// Pods returns the same in words: "1 of 3 run", "3 of 3 done".
func Pods(task *v1.GPUTask) string {
	text := podsText(task, " of ")
	if gputask.IsFinished(task) {
		return text
	}
	return text + plural.Verb(task.Status.Running, " runs", " run")
}

// Amount returns how many GPUs the Pods of a task ask for, without their model: "2 × 8 GPUs + 1 Pod without".
func Amount(task *v1.GPUTask) string {
	var parts []string
	without := 0
	for _, role := range gputask.Roles(task) {
		if role.GPUAmount == "0" {
			without += role.Count()
			continue
		}
		text := amountText(&role)
		if count := role.Count(); count > 1 {
			text = fmt.Sprintf("%d × %s", count, text)
		}
		if role.GPU != task.Spec.GPU {
			text += modelText(&role)
		}
		parts = append(parts, text)
	}
	switch {
	case len(parts) == 0:
		return plural.Count(without, "Pod") + " without GPUs"
	case without > 0:
		parts = append(parts, plural.Count(without, "Pod")+" without")
	}
	return strings.Join(parts, " + ")
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

// amount returns how many GPUs each Pod requests, of several roles each such number once.
func amount(task *v1.GPUTask) string {
	var amounts []string
	for _, role := range gputask.Roles(task) {
		each := cmp.Or(role.GPUAmount, "1")
		if role.GPUProfile != "" {
			each += "×" + role.GPUProfile
		}
		if !slices.Contains(amounts, each) {
			amounts = append(amounts, each)
		}
	}
	return strings.Join(amounts, ",")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Request returns what a task asks for, in one line.
func Request(task *v1.GPUTask) string {
	var parts []string
	for _, role := range gputask.Roles(task) {
		parts = append(parts, roleText(&role))
	}
	if together := togetherText(task); together != "" {
		parts = append(parts, together)
	}
	if topology := task.Spec.Topology; topology != nil {
		wish := "if possible in one " + topology.Level
		if topology.Mode == v1.TopologyRequired {
			wish = "only in one " + topology.Level
		}
		parts = append(parts, wish)
	}
	if task.Spec.NodePool != "" {
		parts = append(parts, "in node pool "+task.Spec.NodePool)
	}
	return strings.Join(parts, "; ")
}

// roleText describes what the Pods of a role request: "2 × worker: 8 GPUs, 16 CPU each".
func roleText(role *gputask.Role) string {
	each := resourcesText(role)
	switch count := role.Count(); {
	case role.Name != "" && count > 1:
		return fmt.Sprintf("%d × %s: %s each", count, role.Name, each)
	case role.Name != "":
		return fmt.Sprintf("%s: %s", role.Name, each)
	case count > 1:
		return fmt.Sprintf("%d Pods, each %s", count, each)
	default:
		return each
	}
}

// resourcesText describes what each Pod of a role requests.
func resourcesText(role *gputask.Role) string {
	parts := []string{gpusText(role)}
	if role.CPU != "" {
		parts = append(parts, cores(role.CPU)+" CPU")
	}
	if role.Memory != "" {
		parts = append(parts, role.Memory+" memory")
	}
	return strings.Join(parts, ", ")
}

// cores returns a number of CPUs without the suffix for thousandths, if it needs none: "4" for "4000m".
func cores(cpu string) string {
	quantity, err := resource.ParseQuantity(cpu)
	if err != nil {
		return cpu
	}
	return strconv.FormatFloat(quantity.AsApproximateFloat64(), 'f', -1, 64)
}

func gpusText(role *gputask.Role) string {
	text := amountText(role)
	if role.GPUAmount == "0" {
		return text
	}
	text += modelText(role)
	if role.GPUMemory != "" {
		text += " with at least " + role.GPUMemory + " of memory each"
	}
	return text
}

func amountText(role *gputask.Role) string {
	switch text := cmp.Or(role.GPUAmount, "1"); {
	case text == "0":
		return "no GPU"
	case role.GPUProfile != "" && text == "1":
		return "1 MIG slice of profile " + role.GPUProfile
	case role.GPUProfile != "":
		return text + " MIG slices of profile " + role.GPUProfile
	case text == "1":
		return "1 GPU"
	case strings.HasPrefix(text, "0."):
		return text + " of a GPU"
	default:
		return text + " GPUs"
	}
}

func modelText(role *gputask.Role) string {
	switch {
	case role.GPU == "":
		return ""
	case role.GPUProfile != "":
		return " on " + role.GPU
	default:
		return " of " + role.GPU
	}
}

// togetherText says which Pods of a task start together; "" for a task of one Pod.
func togetherText(task *v1.GPUTask) string {
	replicas, least := gputask.Replicas(task), gputask.MinAvailable(task)
	switch {
	case gputask.IsArray(task):
		return fmt.Sprintf("%d at a time, each by itself", replicas)
	case replicas == 1:
		return ""
	case least < replicas:
		return fmt.Sprintf("at least %d of them together", least)
	default:
		return "all of them together"
	}
}

// ProgressLine returns the progress of a task in one line.
func ProgressLine(p *Page, task *v1.GPUTask) string {
	phase := Phase(task.Status.Phase)
	line := p.Paint(phase.Style, phase.Text) + spaces(len("Succeeded")-len(phase.Text))
	if replicas := gputask.Replicas(task); replicas > 1 {
		line += fmt.Sprintf("  %d/%d running", task.Status.Running, replicas)
	}
	if task.Status.Message != "" {
		line += "  " + p.message(task.Status.Message)
	}
	return line
}

// Progress writes such a line after the time that has passed.
func Progress(p *Page, after time.Duration, line string) {
	p.Printf("%6s  %s\n", span(after), strings.TrimRight(line, " "))
}
