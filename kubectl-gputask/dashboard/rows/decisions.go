// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// Journal is the last of the scheduler's decisions that a filter selects.
type Journal struct {
	// Missing is why there are none.
	Missing string       `json:"missing,omitempty"`
	From    *metav1.Time `json:"from,omitempty"`
	// Selected is how many the filter selects, and Outcomes are those of all decisions, sorted.
	Selected  int        `json:"selected"`
	Outcomes  []string   `json:"outcomes"`
	Decisions []Decision `json:"decisions"`
}

// DecisionFilter selects decisions. What is not set selects all.
type DecisionFilter struct {
	// Task is the namespace and name of a task, and IsArray true if each of its Pods is decided about by itself.
	Task    string
	IsArray bool
	// Words are all in what was decided about, in small letters.
	Words   []string
	Outcome string
}

func (f *DecisionFilter) selects(d *journal.Decision) bool {
	if f.Outcome != "" && outcomeText(d.Outcome) != f.Outcome || f.Task != "" && !f.isAbout(d) {
		return false
	}
	for _, word := range f.Words {
		if !strings.Contains(strings.ToLower(d.Subject), word) {
			return false
		}
	}
	return true
}

// isAbout reports whether a decision was about the task, or a Pod of an array: these have its name and a number.
func (f *DecisionFilter) isAbout(d *journal.Decision) bool {
	rest, found := strings.CutPrefix(d.Subject, f.Task)
	if !found || rest == "" || !f.IsArray || d.Gang {
		return found && rest == ""
	}
	index, found := strings.CutPrefix(rest, "-")
	return found && index != "" && strings.Trim(index, "0123456789") == ""
}

// JournalOf returns the last of the decisions that a filter selects, at most some.
func JournalOf(all []journal.Decision, filter *DecisionFilter, most int) *Journal {
	list, outcomes := &Journal{Decisions: []Decision{}}, map[journal.Outcome]bool{}
	for i := range slices.Backward(all) {
		outcomes[all[i].Outcome] = true
		if !filter.selects(&all[i]) {
			continue
		}
		if list.Selected++; list.Selected <= most {
			list.Decisions = append(list.Decisions, DecisionRow(&all[i]))
		}
	}
	slices.Reverse(list.Decisions)
	if len(list.Decisions) > 0 {
		list.From = &list.Decisions[0].Time
	}
	list.Outcomes = make([]string, 0, len(outcomes))
	for outcome := range outcomes {
		list.Outcomes = append(list.Outcomes, outcomeText(outcome))
	}
	slices.Sort(list.Outcomes)
	return list
}

// Decision is one of the scheduler's decisions.
type Decision struct {
	ID                   int              `json:"id"`
	Time                 metav1.Time      `json:"time"`
	Subject              string           `json:"subject"`
	Asks                 string           `json:"asks"`
	Outcome              string           `json:"outcome"`
	Why                  string           `json:"why"`
	Candidates           int              `json:"candidates"`
	Nodes                int              `json:"nodes"`
	Places               []analysis.Place `json:"places,omitempty"`
	Refusals             []string         `json:"refusals,omitempty"`
	Digest               string           `json:"digest"`
	DurationMicroseconds int64            `json:"durationMicroseconds"`
}

// JournalStep is a decision with the cluster right before it.
type JournalStep struct {
	Decision Decision `json:"decision"`
	Nodes    []Node   `json:"nodes"`
}

// DecisionRow returns a decision of the journal.
func DecisionRow(d *journal.Decision) Decision {
	row := Decision{
		ID: d.Number, Time: metav1.NewTime(d.Time), Subject: d.Subject, Outcome: outcomeText(d.Outcome), Why: d.Why, Digest: d.Digest, DurationMicroseconds: d.Microseconds,
		Asks: asksText(d),
	}
	for _, question := range d.Asked {
		row.Candidates, row.Nodes = question.Room, question.Nodes // those of the last question, which decided
		if question.Fits {
			break
		}
	}
	for i := range d.Places {
		row.Places = append(row.Places, analysis.Place{Pod: d.Places[i].Pod, Node: d.Places[i].Node, GPUs: d.Places[i].GPUs})
	}
	if d.Refused != "" {
		row.Refusals = append(row.Refusals, d.Refused)
	}
	for _, refusal := range d.Refusals {
		text := refusal.Node + ": " + refusal.Reason
		if refusal.Plugin != "" {
			text += " (" + refusal.Plugin + ")"
		}
		row.Refusals = append(row.Refusals, strings.TrimSpace(text))
	}
	for _, victim := range d.Victims {
		row.Refusals = append(row.Refusals, fmt.Sprintf("Pod %s has to leave node %s", victim.Pod, victim.Node))
	}
	return row
}

// outcomeText returns an outcome with a capital letter.
func outcomeText(outcome journal.Outcome) string {
	text := string(outcome)
	if text == "" {
		return "Unknown"
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// asksText says what was asked for: "2 × 8 GPUs of h100-80gb-hbm3".
func asksText(d *journal.Decision) string {
	if len(d.Asked) == 0 {
		return "places for " + plural.Count(d.Pods, "Pod")
	}
	var parts []string
	for _, role := range d.Asked[0].Roles {
		shape, err := role.Shape.Engine()
		if err != nil {
			continue
		}
		if text := shape.String(); role.Max > 1 {
			parts = append(parts, fmt.Sprintf("%d × %s", role.Max, text))
		} else {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " and ")
}

// StepRow returns a decision with the cluster right before it.
func StepRow(d *journal.Decision, state *journal.State) *JournalStep {
	step := &JournalStep{Decision: DecisionRow(d), Nodes: []Node{}}
	for i := range state.Nodes {
		if len(state.Nodes[i].Cards) > 0 {
			step.Nodes = append(step.Nodes, recordedNode(&state.Nodes[i], metav1.NewTime(state.Time)))
		}
	}
	return step
}

func recordedNode(node *journal.NodeState, at metav1.Time) Node {
	row := Node{Name: node.Name, Model: node.Model, Pool: node.Pool, Domains: append([]string{}, node.Domains...), GPUs: make([]Cell, len(node.Cards))}
	if node.Closed {
		row.Notice = "took no Pods"
	}
	for i := range node.Cards {
		row.GPUs[i] = Cell{Use: recordedUse(&node.Cards[i], node.Closed)}
		if row.GPUs[i].Use == analysis.CardShared {
			row.GPUs[i].Percent = placement.Card - node.Cards[i].Free
		}
	}
	for i := range node.Pods {
		pod := &node.Pods[i]
		if len(pod.GPUs) == 0 {
			continue
		}
		namespace, name, _ := strings.Cut(pod.Label, "/")
		holder := len(row.Holders)
		row.Holders = append(row.Holders, Holder{Namespace: namespace, Pod: name, Task: strings.TrimPrefix(pod.Gang, namespace+"/"), Percent: pod.Percent, Since: at})
		for _, gpu := range pod.GPUs {
			if gpu < len(row.GPUs) {
				row.GPUs[gpu].Holders = append(row.GPUs[gpu].Holders, holder)
			}
		}
	}
	return row
}

func recordedUse(card *journal.Card, closed bool) analysis.CardUse {
	switch {
	case card.Broken:
		return analysis.CardUnhealthy
	case card.Free <= 0:
		return analysis.CardBusy
	case card.Free < placement.Card:
		return analysis.CardShared
	case closed:
		return analysis.CardClosed
	default:
		return analysis.CardFree
	}
}
