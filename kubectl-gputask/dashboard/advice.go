// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"maps"
	"time"

	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
)

const (
	// adviceBudget is how long one look may spend on finding out what would help tasks whose scheduler has not said so.
	adviceBudget = 100 * time.Millisecond
	// adviceAge is how long an answer is good for.
	adviceAge = 15 * time.Second
)

// advice remembers what would help waiting tasks. It is used by one look at a time.
type advice struct {
	clock clock.PassiveClock
	view  *analysis.View
	spent time.Duration
	known map[string]adviceEntry
}

type adviceEntry struct {
	rows.Advice
	reason string
	at     time.Time
}

// begin begins a look, and forgets what has become too old.
func (a *advice) begin(view *analysis.View) {
	a.view, a.spent = view, 0
	maps.DeleteFunc(a.known, func(_ string, entry adviceEntry) bool { return view.Now.Sub(entry.at) > 2*adviceAge })
}

// of returns what would help; nothing if that is not known, or not yet.
func (a *advice) of(entry *analysis.LineEntry) rows.Advice {
	if entry.Kind != analysis.KindTask {
		return rows.Advice{}
	}
	key := entry.Namespace + "/" + entry.Name
	known, isKnown := a.known[key]
	isFresh := isKnown && known.reason == entry.Reason && a.view.Now.Sub(known.at) < adviceAge
	if isFresh || a.spent >= adviceBudget {
		return known.Advice
	}
	begin := a.clock.Now()
	found := rows.Advice{}
	if e, exists := a.view.Explain(entry.Namespace, entry.Name); exists && e.Outlook != nil {
		found = rows.Advice{Text: show.Help(e.Outlook), Remedies: e.Outlook.Remedies}
	}
	a.spent += a.clock.Since(begin)
	a.known[key] = adviceEntry{Advice: found, reason: entry.Reason, at: a.view.Now}
	return found
}
