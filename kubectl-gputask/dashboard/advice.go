// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"maps"
	"time"

	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
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
	text, reason string
	at           time.Time
}

// begin begins a look, and forgets what has become too old.
func (a *advice) begin(view *analysis.View) {
	a.view, a.spent = view, 0
	maps.DeleteFunc(a.known, func(_ string, entry adviceEntry) bool { return view.Now.Sub(entry.at) > 2*adviceAge })
}

// of returns what would help; empty if that is not known, or not yet.
func (a *advice) of(entry *analysis.LineEntry) string {
	if entry.Kind != analysis.KindTask {
		return ""
	}
	key := entry.Namespace + "/" + entry.Name
	known, found := a.known[key]
	isFresh := found && known.reason == entry.Reason && a.view.Now.Sub(known.at) < adviceAge
	if isFresh || a.spent >= adviceBudget {
		return known.text
	}
	begin := a.clock.Now()
	text := ""
	if e, exists := a.view.Explain(entry.Namespace, entry.Name); exists && e.Outlook != nil {
		text = show.Help(e.Outlook)
	}
	a.spent += a.clock.Since(begin)
	a.known[key] = adviceEntry{text: text, reason: entry.Reason, at: a.view.Now}
	return text
}
