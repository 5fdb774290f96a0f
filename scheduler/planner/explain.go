// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// explanations remembers what waiting gangs were told, so that Pods are not
// written to whenever a number in it changes, and so that equal questions are
// answered once.
type explanations struct {
	period  time.Duration
	answers map[string]answer
	sweepAt int
}

type answer struct {
	text, reason string
	at           time.Time
	// version is that of the cluster that it is about.
	version uint64
}

func newExplanations(period time.Duration) *explanations {
	return &explanations{period: period, answers: map[string]answer{}, sweepAt: fewest}
}

// fewest is how many answers are kept before old ones are looked for.
const fewest = 1024

// recall returns an answer that is still good.
func (e *explanations) recall(question string, now time.Time) (answer, bool) {
	known, found := e.answers[question]
	return known, found && now.Sub(known.at) < e.period
}

func (e *explanations) remember(question string, given answer) {
	e.answers[question] = given
	if len(e.answers) < e.sweepAt {
		return
	}
	for other, old := range e.answers {
		if given.at.Sub(old.at) >= e.period {
			delete(e.answers, other)
		}
	}
	e.sweepAt = max(fewest, 2*len(e.answers))
}

// why asks the engine why a gang does not fit.
func (p *Planner) why(attempt *gangs.Attempt, gang *roles) (explanation *placement.Explanation, err error) {
	if gang.Required {
		gang.Within = gang.near
	}
	p.mirror.For(p.requesterOf(attempt), func(cluster *placement.Cluster) { explanation, err = cluster.Explain(&gang.Gang) })
	return explanation, err
}

// explain says why there is no place, and in one word for metrics. A remembered
// answer about another cluster than there is now is outdated at a time at which it has
// to be renewed; else that is zero.
func (p *Planner) explain(attempt *gangs.Attempt, gang *roles) (given answer, renew time.Time) {
	question, now, version := p.questionOf(attempt, gang), p.clock.Now(), p.mirror.Version()
	if known, good := p.texts.recall(question, now); good {
		if known.version != version {
			renew = known.at.Add(p.texts.period)
		}
		return known, renew
	}
	explanation, err := p.why(attempt, gang)
	given = answer{at: now, version: version, reason: "Unknown", text: asks(attempt, gang) + "; no place was found"}
	switch {
	case err != nil:
		given.text = asks(attempt, gang) + "; " + err.Error()
	case explanation != nil:
		given.text, given.reason = asks(attempt, gang)+"; "+snapshot.PlainDomains(explanation.String()), reasonOf(explanation)
	}
	if explanation != nil {
		if note := p.reservedForOthers(attempt, gang); note != "" {
			given.text, given.reason = given.text+note, "Reserved"
		}
	}
	p.texts.remember(question, given)
	return given, time.Time{}
}

// reservedForOthers says so if a gang would fit but for what is reserved.
func (p *Planner) reservedForOthers(attempt *gangs.Attempt, gang *roles) string {
	fits := false
	gpus := p.mirror.Withheld(p.requesterOf(attempt), func(cluster *placement.Cluster) {
		fits = p.planIn(cluster, attempt, gang) != nil
	})
	switch {
	case !fits:
		return ""
	case gpus == 0:
		return "; it would fit, but places are reserved by MovePlans for others"
	case gpus == 1:
		return "; it would fit, but 1 GPU is reserved by MovePlans for others"
	default:
		return fmt.Sprintf("; it would fit, but %d GPUs are reserved by MovePlans for others", gpus)
	}
}

// questionOf identifies what is asked for. Gangs are told by name, Pods that are
// alone by what they need: there may be thousands of them.
func (p *Planner) questionOf(attempt *gangs.Attempt, gang *roles) string {
	if !attempt.Group.Alone {
		return attempt.Group.Key + ": " + asks(attempt, gang)
	}
	question := append([]string{gang.Roles[0].Shape.Key()}, gang.Except...)
	if requester := p.requesterOf(attempt); requester.Pods != nil {
		question = append(question, p.mirror.Heeded(requester)) // those that heed others see another cluster
	}
	return strings.Join(question, "\x00")
}

// asks says what a gang needs: "8 Pods that start together, each 1 GPU of …".
func asks(attempt *gangs.Attempt, gang *roles) string {
	var each []string
	for i := range gang.Roles {
		if role := &gang.Roles[i]; role.Min > 0 {
			each = append(each, fmt.Sprintf("%d × %s", role.Min, role.Shape.String()))
		}
	}
	if len(each) == 1 && attempt.Need == 1 {
		return "needs " + gang.Roles[0].Shape.String()
	}
	text := "needs at once " + strings.Join(each, " and ")
	if gang.Required {
		text += " in one " + attempt.Labels.Level
	}
	return text
}

// reasonOf returns the most frequent reason in one word.
func reasonOf(explanation *placement.Explanation) string {
	if explanation.Never {
		return "Never"
	}
	if len(explanation.Refusals) == 0 {
		return "NoNodes"
	}
	switch explanation.Refusals[0].Reason {
	case placement.Fits:
		return "TooFewTogether"
	case placement.InsufficientGPUs, placement.InsufficientShare:
		return "GPUs"
	case placement.InsufficientCPU, placement.InsufficientMemory, placement.NoPodSlot:
		return "CPUOrMemory"
	default:
		return "Constraints"
	}
}
