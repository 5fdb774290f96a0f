// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// seconds is how times in a journal are written.
const seconds = "2006-01-02 15:04:05"

// Replay writes what a replay has shown, with at most limit differences; 0 is all.
func Replay(p *Page, report *journal.Report, limit int) {
	if report.Decisions == 0 {
		p.Printf("The journal has no decisions.\n")
		return
	}
	var f pairs
	f.add("Decisions", fmt.Sprintf("%d, from %s to %s UTC", report.Decisions, report.From.UTC().Format(seconds), report.To.UTC().Format(seconds)))
	policy := report.Policy
	if policy == report.Recorded {
		policy += ", as recorded"
	} else {
		policy += " instead of " + report.Recorded
	}
	f.add("Policy", policy)
	f.add("The same", fmt.Sprint(report.Same))
	different := coloured(report.Different, Yellow)
	f.add("Different", p.Paint(different.Style, different.Text))
	notJudged := report.Decisions - report.Same - report.Different
	f.add("Not judged", fmt.Sprint(notJudged))
	if report.Lost > 0 {
		f.add("Missing", fmt.Sprintf("%s between those", plural.Count(report.Lost, "decision")))
	}
	f.write(p)
	for _, reason := range report.SortedReasons() {
		p.Printf("  %d: %s\n", report.NotJudged[reason], reason)
	}
	if report.Damaged > 0 {
		p.Printf("%s\n", p.Paint(Red, "The journal is damaged: its entries do not add up to the cluster of the decisions."))
	}
	differences(p, report.Differences, limit)
}

func differences(p *Page, list []journal.Difference, limit int) {
	if len(list) == 0 {
		return
	}
	p.Printf("\n")
	t := newTable("NUMBER", "TIME", "FOR", "PRICE", "WAS", "WOULD BE")
	left := 0
	if limit > 0 && len(list) > limit {
		list, left = list[:limit], len(list)-limit
	}
	for i := range list {
		d := &list[i]
		price := "-"
		if d.More != nil {
			price = fmt.Sprintf("%+.2f", *d.More)
		}
		t.add(d.Number, d.Time.UTC().Format(time.TimeOnly), d.Subject, price, d.Was, d.WouldBe)
	}
	t.write(p)
	if left > 0 {
		p.Printf("%s\n", p.Paint(Faint, fmt.Sprintf("and %d more: --limit=0 shows all", left)))
	}
	p.Printf("\n%s\n", p.Paint(Faint, "PRICE is the extra cost of the other places, in GPUs, at the prices of the recorded policy."))
}

// Decision writes one decision in full.
func Decision(p *Page, e *journal.Explained, levels []string) {
	d := e.Decision
	var f pairs
	f.add("Decision", fmt.Sprintf("%d, at %s UTC, in %s", d.Number, d.Time.UTC().Format(seconds), time.Duration(d.Microseconds)*time.Microsecond))
	f.add("For", subject(d))
	if q := deciding(d); q != nil {
		for _, line := range requests(q, levels) {
			f.add("Asks for", line)
		}
	}
	f.add("Outcome", p.Paint(outcomeStyle(d.Outcome), string(d.Outcome)))
	f.addIf("Why", oneLine(snapshot.PlainDomains(d.Why)))
	f.addIf("Refused", d.Refused)
	f.addIf("Kept for others", strings.Join(d.Claimed, ", "))
	state := "as recorded (digest " + d.Digest + ")"
	if !e.Verified {
		state = p.Paint(Red, "not as recorded")
	}
	f.add("Cluster", state)
	f.addIf("Problem", p.Paint(Red, e.Problem))
	f.write(p)
	places(p, d)
	victims(p, d)
	candidates(p, e)
	refusals(p, d)
}

func subject(d *journal.Decision) string {
	if !d.Gang {
		return "Pod " + d.Subject
	}
	return fmt.Sprintf("gang %s: %s, of which %d must start together", d.Subject, plural.Count(d.Pods, "Pod"), d.Need)
}

// deciding returns the question that decided; nil if the engine was not asked.
func deciding(d *journal.Decision) *journal.Question {
	for _, q := range d.Asked {
		if q.Fits {
			return q
		}
	}
	if len(d.Asked) > 0 {
		return d.Asked[len(d.Asked)-1]
	}
	return nil
}

// requests describes what is asked for, a line for each role.
func requests(q *journal.Question, levels []string) (lines []string) {
	for i := range q.Roles {
		role := &q.Roles[i]
		if role.Shape == nil {
			continue
		}
		shape, err := role.Shape.Engine()
		if err != nil {
			lines = append(lines, err.Error())
			continue
		}
		line := shape.String()
		if role.Max > 1 {
			line = fmt.Sprintf("%d × %s", role.Max, line)
		}
		lines = append(lines, line+where(q, levels))
	}
	return lines
}

func where(q *journal.Question, levels []string) string {
	if q.Level < 1 || q.Level > len(levels) {
		return ""
	}
	if q.Required {
		return ", in one " + levels[q.Level-1]
	}
	return ", if possible in one " + levels[q.Level-1]
}

func outcomeStyle(outcome journal.Outcome) Style {
	switch outcome {
	case journal.Placed, journal.Ranked:
		return Green
	case journal.Preempts:
		return Yellow
	default:
		return Plain
	}
}

func places(p *Page, d *journal.Decision) {
	t := newTable("POD", "NODE", "GPUS")
	for _, place := range d.Places {
		t.add(place.Pod, place.Node, cards(place.GPUs, place.Percent))
	}
	t.sectionIfAny(p, "Places:")
}

// cards describes cards of a node by their indices.
func cards(indices []int, percent int) string {
	if len(indices) == 0 {
		return "-"
	}
	parts := make([]string, len(indices))
	for i, index := range indices {
		parts[i] = fmt.Sprint(index)
	}
	text := strings.Join(parts, ",")
	if percent != placement.Card {
		text += fmt.Sprintf(" (%d%%)", percent)
	}
	return text
}

func victims(p *Page, d *journal.Decision) {
	t := newTable("POD", "NODE")
	for _, victim := range d.Victims {
		t.add(victim.Pod, victim.Node)
	}
	t.sectionIfAny(p, "Would be preempted:")
}

func candidates(p *Page, e *journal.Explained) {
	t := newTable("NODE", "PRICE")
	for _, candidate := range e.Candidates {
		t.add(candidate.Node, fmt.Sprintf("%.4f", candidate.Cost))
	}
	t.sectionIfAny(p, fmt.Sprintf("Candidates for the first Pod, %d of %d:", len(e.Candidates), e.All))
}

func refusals(p *Page, d *journal.Decision) {
	t := newTable("NODE", "PLUGIN", "REASON")
	for _, refusal := range d.Refusals {
		t.add(orNone(refusal.Node), orNone(refusal.Plugin), refusal.Reason)
	}
	t.sectionIfAny(p, "Refused by filters:")
}
