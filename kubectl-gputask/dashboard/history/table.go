// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/pkg/accounting"
)

// line is a row that is being made.
type line struct {
	rows.SplitRow
	hours float64
	waits []time.Duration
}

// Table returns what each queue, model or namespace has used, started and waits for: those with most GPU-hours first,
// at most rows.MaxParts and one of all others. Without a report the GPU-hours are not known.
func Table(dimension string, report *accounting.Report, starts []rows.Start, now []rows.Part) []rows.SplitRow {
	lines := map[string]*line{}
	at := func(name string) *line {
		if lines[name] == nil {
			lines[name] = &line{SplitRow: rows.SplitRow{Name: name}}
		}
		return lines[name]
	}
	if report != nil {
		for i := range report.Rows {
			at(nameOf(&report.Rows[i])).hours += report.Rows[i].Used.Hours()
		}
	}
	for i := range starts {
		one := at(starts[i].By(dimension))
		one.waits = append(one.waits, starts[i].Waited)
	}
	for _, part := range now {
		at(part.Name).Waiting += part.Waiting
	}
	sorted := slices.SortedFunc(maps.Values(lines), func(a, b *line) int {
		return cmp.Or(-cmp.Compare(a.hours, b.hours), -cmp.Compare(len(a.waits), len(b.waits)), -cmp.Compare(a.Waiting, b.Waiting), cmp.Compare(a.Name, b.Name))
	})
	table := []rows.SplitRow{}
	for _, one := range merged(sorted) {
		table = append(table, one.row(report != nil))
	}
	return table
}

// nameOf returns the name in the only dimension of a report; empty if it has none.
func nameOf(row *accounting.Row) string {
	if len(row.Values) == 0 {
		return ""
	}
	return row.Values[0]
}

// merged leaves at most rows.MaxParts lines, and one of all others.
func merged(lines []*line) []*line {
	if len(lines) <= rows.MaxParts {
		return lines
	}
	others := &line{SplitRow: rows.SplitRow{Name: accounting.Others}}
	kept := slices.DeleteFunc(slices.Clone(lines[:rows.MaxParts]), func(one *line) bool { return one.Name == accounting.Others })
	for _, one := range lines {
		if !slices.Contains(kept, one) {
			others.hours += one.hours
			others.Waiting += one.Waiting
			others.waits = append(others.waits, one.waits...)
		}
	}
	return append(kept, others)
}

func (l *line) row(counted bool) rows.SplitRow {
	row := l.SplitRow
	if counted {
		row.GPUHours = &l.hours
	}
	if row.Started = len(l.waits); row.Started > 0 {
		slices.Sort(l.waits)
		row.Waits = &rows.Waits{MedianSeconds: quantile(l.waits, 0.5), P95Seconds: quantile(l.waits, 0.95)}
	}
	return row
}

// quantile returns a quantile of sorted durations in seconds, to the millisecond, on a straight line between two of
// them.
func quantile(sorted []time.Duration, part float64) float64 {
	rank := part * float64(len(sorted)-1)
	below := math.Floor(rank)
	low, high := sorted[int(below)].Seconds(), sorted[int(math.Ceil(rank))].Seconds()
	return math.Round(1000*(low+(high-low)*(rank-below))) / 1000
}
