// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

// The functions of this file return the sentences of the commands one by one, for the page in a browser, which lays
// them out itself.

// Pair is a name with what it stands for: "Free" and "3 of 16 GPUs on 2 nodes".
type Pair struct {
	Name  string `json:"label"`
	Value string `json:"text"`
}

// plain returns a page that formats without colours.
func plain(now time.Time) *Page { return &Page{Writer: io.Discard, Now: now, forPrograms: true} }

func (f *pairs) list() []Pair {
	list := make([]Pair, len(f.names))
	for i, name := range f.names {
		list[i] = Pair{Name: name, Value: f.values[i]}
	}
	return list
}

// ExplanationHeadline returns an explanation in one sentence: "It has been pending for 9s: there is room for it now".
func ExplanationHeadline(e *analysis.Explanation, now time.Time) string {
	p := plain(now)
	if gputask.IsFinished(e.Task) {
		return "It " + stateText(p, e) + "."
	}
	return "It " + stateText(p, e) + headline(p, e) + "."
}

// ExplanationPairs returns all that an explanation knows, but the commands, remedies, moves and places.
func ExplanationPairs(e *analysis.Explanation, now time.Time) []Pair {
	shown := *e
	shown.Verdict.Commands = nil
	f := explanationPairs(plain(now), &shown)
	if e.Outlook != nil {
		addOutlook(f, e.Outlook, now)
	}
	return f.list()
}

// WhatIfHeadline returns the verdict on a hypothetical task in one sentence.
func WhatIfHeadline(answer *analysis.WhatIf) string {
	return answer.Name + " " + whatIfText(plain(time.Time{}), answer.Outlook) + "."
}

// WhatIfPairs returns all else about a hypothetical task, but the remedies, moves and places.
func WhatIfPairs(answer *analysis.WhatIf, now time.Time) []Pair {
	p, f, o := plain(now), &pairs{}, answer.Outlook
	f.add("Asks for", Request(answer.Task))
	if len(answer.DependsOn) > 0 {
		f.add("Would wait for", abbreviate(answer.DependsOn, 4))
	}
	f.addIf("Queue", inQueueText(answer.InQueue))
	if answer.Ahead > 0 && o.Verdict != analysis.Invalid && o.Verdict != analysis.QueueRefuses {
		f.add("Ahead of it", plural.Count(answer.Ahead, "waiting task"))
	}
	if equal := answer.Equal; equal != nil {
		f.add("Compare", equal.Name+" is waiting for the same resources, and is expected to start "+p.expectation(equal.EstimatedStart))
	}
	if o.Free != nil {
		f.add("Free", freeText(o.Free))
	}
	for _, command := range answer.Commands {
		f.add("Try", command)
	}
	f.addIf("Note", uncheckedText(answer))
	addOutlook(f, o, now)
	return f.list()
}

// addOutlook adds why Pods don't start now, and who has to leave or end for them.
func addOutlook(f *pairs, o *analysis.Outlook, now time.Time) {
	if o.Verdict == analysis.AfterPreemption {
		f.addIf(whyTitle(o.Verdict), o.Problem)
	}
	f.addIf(whyTitle(o.Verdict), o.Nodes)
	for _, why := range o.Immovable {
		f.add("Can't be moved", why)
	}
	f.addIf("Would be preempted (lower priority)", abbreviate(preemptedOf(o), 8))
	f.addIf("Would be preempted (on borrowed GPUs)", abbreviate(o.Reclaimed, 8))
	if len(o.Moves) > 0 {
		f.add("Moves", plural.Count(len(o.Moves), "move")+" would make room, at a cost of "+GPUTime(o.CostGPUSeconds)+" of GPU time")
	}
	if o.At != nil {
		f.add("Others end", fmt.Sprintf("at %s at the latest, in %s: %s", plain(now).minute(o.At.Time), span(o.At.Sub(now)), abbreviate(o.Ends, 8)))
	}
}

// Help returns what would let a waiting task start, in one sentence; empty if nothing is known that would.
func Help(o *analysis.Outlook) string {
	switch o.Verdict {
	case analysis.Now, analysis.AfterPreemption, analysis.AfterMoves, analysis.WhenOthersEnd:
		text := verdictText(plain(time.Time{}), o)
		if o.Verdict == analysis.AfterMoves {
			text += " of running tasks, at a cost of " + GPUTime(o.CostGPUSeconds) + " of GPU time"
		}
		return text
	case analysis.Sometime, analysis.NodesClosed, analysis.Never:
		if len(o.Remedies) > 0 {
			return waitingreason.Help(&v1.WaitingReason{Remedies: o.Remedies})
		}
		return verdictText(plain(time.Time{}), o)
	default: // the reason why it waits has said it
		return ""
	}
}

// Waits returns what an estimate says besides times: "after train-7 (8 GPUs) ends; its place is booked".
func Waits(estimate *v1.StartEstimate) string {
	var parts []string
	if estimate.Behind != "" {
		parts = append(parts, "after "+estimate.Behind+" ends")
	}
	if assumed := gputask.AssumedText(estimate); assumed != "" {
		parts = append(parts, assumed)
	}
	if estimate.Backfill {
		parts = append(parts, "before some of those ahead of it, which it does not delay")
	}
	if estimate.Reserved {
		parts = append(parts, "its place is booked")
	}
	return strings.Join(parts, "; ")
}
