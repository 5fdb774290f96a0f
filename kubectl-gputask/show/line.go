// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// LineColumns selects what a Line shows.
type LineColumns struct {
	// Wide adds all other columns, and shows reasons in full.
	Wide bool
	// NoHeaders leaves out the headings.
	NoHeaders bool
	// Running adds what runs.
	Running bool
	// Namespaces adds the namespaces.
	Namespaces bool
	// unknown is true if it is not known which queue those are in that name none.
	unknown bool
}

// Line writes what waits for GPUs, and below it what runs.
func Line(p *Page, line *analysis.Line, columns LineColumns) {
	columns.unknown = line.QueuesUnknown
	if len(line.Waiting) > 0 {
		columns.narrow(p, waitingTable(p, line.Waiting, columns)).write(p)
	}
	if !columns.Running || len(line.Running) == 0 {
		return
	}
	if len(line.Waiting) > 0 {
		p.Printf("\n")
	}
	columns.narrow(p, runningTable(p, line.Running, columns)).write(p)
}

// narrow drops the columns that say nothing. Scripts read the others by their number: they always have the queue.
func (c *LineColumns) narrow(p *Page, t *table) *table {
	if !c.Namespaces {
		t.drop("NAMESPACE")
	}
	if p.Width > 0 {
		t.dropUniform("QUEUE", orNone(""))
	}
	return t
}

func waitingTable(p *Page, entries []analysis.LineEntry, columns LineColumns) *table {
	heading := []string{"QUEUE", "POSITION", "NAMESPACE", "NAME", "GPUS", "PRIORITY", "WAITED", "EXPECTED START"}
	if columns.Wide {
		heading = append(heading, "KIND", "PODS", "MODEL")
	}
	t := newTable(append(heading, "REASON")...)
	t.headless = columns.NoHeaders
	for i := range entries {
		entry := &entries[i]
		row := []any{
			columns.queue(entry), orDash(entry.Position), entry.Namespace, entry.Name, entry.GPUs, cmp.Or(entry.PriorityClass, fmt.Sprint(entry.Priority)), p.Age(entry.Since.Time), startCell(p, entry),
		}
		if columns.Wide {
			row = append(row, entry.Kind, entry.Pods, cmp.Or(entry.Model, "any"), EntryReason(entry))
		} else {
			row = append(row, p.cell(EntryReason(entry)))
		}
		t.add(row...)
	}
	return t
}

func runningTable(p *Page, entries []analysis.LineEntry, columns LineColumns) *table {
	heading := []string{"QUEUE", "NAMESPACE", "NAME", "GPUS", "PRIORITY", "RUNNING", "ENDS BY"}
	if columns.Wide {
		heading = append(heading, "KIND", "PODS", "MODEL")
	}
	t := newTable(append(heading, "NODES")...)
	t.headless = columns.NoHeaders
	for i := range entries {
		entry := &entries[i]
		ends := "<unknown>"
		if entry.EndsBy != nil {
			ends = p.timeOfDay(entry.EndsBy.Time)
		}
		row := []any{columns.queue(entry), entry.Namespace, entry.Name, entry.GPUs, cmp.Or(entry.PriorityClass, fmt.Sprint(entry.Priority)), p.Age(entry.Since.Time), ends}
		if columns.Wide {
			row = append(row, entry.Kind, entry.Pods, cmp.Or(entry.Model, "any"))
		}
		t.add(append(row, abbreviate(entry.Nodes, 3))...)
	}
	return t
}

// queue returns the queue of an entry.
func (c *LineColumns) queue(entry *analysis.LineEntry) string {
	if entry.Queue == "" && c.unknown {
		return "<unknown>"
	}
	return orNone(entry.Queue)
}

// orDash returns a number, or "-" for none.
func orDash(number int) string {
	if number == 0 {
		return "-"
	}
	return fmt.Sprint(number)
}

// startCell returns when an entry is expected to start: "14:10 to 14:40, likely 14:20".
func startCell(p *Page, entry *analysis.LineEntry) Cell {
	switch estimate := entry.EstimatedStart; {
	case entry.Verdict.Kind == v1.TaskNeverFits:
		return Cell{Text: "never", Style: Red}
	case entry.Refused:
		return Cell{Text: "blocked", Style: Red}
	case estimate == nil:
		return Cell{Text: "<unknown>"}
	default:
		return Cell{Text: p.interval(estimate, "to")}
	}
}

// EntryReason returns what an entry waits for.
func EntryReason(entry *analysis.LineEntry) string {
	reason := oneLine(entry.Reason)
	if entry.EstimatedStart == nil || entry.EstimatedStart.Behind == "" {
		return reason
	}
	behind := "starts after " + entry.EstimatedStart.Behind + " ends"
	if reason == "" {
		return behind
	}
	return behind + ": " + reason
}

// interval returns an estimate as "14:10 to 14:40, likely 14:20", with another word between the first two times if that
// is wanted.
func (p *Page) interval(estimate *v1.StartEstimate, to string) string {
	earliest, latest, likely := p.timeOfDay(estimate.Earliest.Time), p.timeOfDay(estimate.Latest.Time), p.timeOfDay(estimate.Likely.Time)
	switch {
	case earliest == latest:
		return likely
	case likely == earliest || likely == latest:
		return fmt.Sprintf("%s %s %s", earliest, to, latest)
	default:
		return fmt.Sprintf("%s %s %s, likely %s", earliest, to, latest, likely)
	}
}

// expectation returns an estimate as "between 14:10 and 14:40 CET, likely 14:20, after train-7 ends".
func (p *Page) expectation(estimate *v1.StartEstimate) string {
	text := p.interval(estimate, "and") + p.zone(estimate.Latest.Time)
	if p.timeOfDay(estimate.Earliest.Time) != p.timeOfDay(estimate.Latest.Time) {
		text = "between " + text
	} else {
		text = "at " + text
	}
	if estimate.Rough {
		text = "roughly " + text
	}
	return strings.TrimSuffix(text+", "+Waits(estimate), ", ")
}

// estimatedStart returns when a task is expected to start as its status says; empty for one that does not wait.
func estimatedStart(p *Page, task *v1.GPUTask) string {
	if task.Status.EstimatedStart == nil || task.Status.Phase != v1.PhasePending {
		return ""
	}
	return p.expectation(task.Status.EstimatedStart)
}

// secondsText formats a number of seconds.
func secondsText(number int64) string {
	return span(time.Duration(number) * time.Second)
}
