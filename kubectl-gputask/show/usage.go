// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/pkg/accounting"
)

// minutes is how times in a report of usage are written.
const minutes = "2006-01-02 15:04"

// Usage writes who has used how many GPU-hours.
func Usage(p *Page, report *accounting.Report) {
	if report.CountedUntil.IsZero() {
		p.Printf("No usage from %s to %s UTC: gpu-controller has counted since its first start, unless --usage-period=0 is set, and keeps %d days.\n",
			report.Since.Format(minutes), report.Until.Format(minutes), accounting.Days)
		return
	}
	p.Printf("From %s to %s UTC%s\n\n", report.Since.Format(minutes), report.Until.Format(minutes), p.Paint(Faint, counted(report)))
	var heading []string
	for _, dimension := range report.By {
		heading = append(heading, strings.ToUpper(dimension))
	}
	t := newTable(append(heading, "GPU-HOURS", "SHARE", "WAITING", "LOST")...)
	for i := range report.Rows {
		row := &report.Rows[i]
		fields := make([]any, 0, len(heading)+4)
		for _, value := range row.Values {
			fields = append(fields, orNone(value))
		}
		t.add(append(fields, amounts(row.Amounts, report.Total)...)...)
	}
	if len(report.Rows) != 1 {
		fields := []any{Cell{Text: "total", Style: Bold}}
		for range len(heading) - 1 {
			fields = append(fields, "")
		}
		t.add(append(fields, amounts(report.Total, report.Total)...)...)
	}
	t.write(p)
}

// counted returns which part of the period is counted, if it is not all.
func counted(report *accounting.Report) string {
	var parts []string
	if report.CountedSince.After(report.Since) {
		parts = append(parts, "since "+report.CountedSince.Format(minutes))
	}
	if report.CountedUntil.Before(report.Until) {
		parts = append(parts, "until "+report.CountedUntil.Format(time.DateTime))
	}
	if len(parts) == 0 {
		return ""
	}
	return ", counted " + strings.Join(parts, " and ")
}

// amounts returns the fields of GPU time.
func amounts(row, total accounting.Amounts) []any {
	hours := func(time accounting.Time) string { return fmt.Sprintf("%.2f", time.Hours()) }
	share := "-"
	if total.Used > 0 {
		share = fmt.Sprintf("%.0f%%", 100*float64(row.Used)/float64(total.Used))
	}
	return []any{hours(row.Used), share, hours(row.Waiting), hours(row.Lost)}
}
