// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"

	"falldio.github.io/gpu-controller/test/chaos/history"
)

// Window is a short part of a history that shows a violation.
type Window struct {
	// From and To are its first entry and the one after its last.
	From, To int
	// First and Last are the first and the last revision in it.
	First, Last int64
	// Entries are those that are about the violation.
	Entries []history.Entry
}

// Shrink returns a short window of a history in which the violation is still found. It cuts off what
// comes after, and then, by bisection, what comes before: the shortest, unless an earlier entry hides
// the violation that a still earlier one makes visible again.
func Shrink(config Config, entries []history.Entry, violation *Violation) Window {
	to := violation.Index + 1
	shows := func(from int) bool {
		for _, found := range All(config, entries[from:to]) {
			if found.same(violation) {
				return true
			}
		}
		return false
	}
	// from shows it, beyond does not.
	from, beyond := 0, to
	for beyond-from > 1 {
		middle := from + (beyond-from)/2
		if shows(middle) {
			from = middle
		} else {
			beyond = middle
		}
	}
	window := Window{From: from, To: to}
	for i := from; i < to; i++ {
		if object := entries[i].Object; object != nil {
			if window.First == 0 {
				window.First = object.Revision
			}
			window.Last = object.Revision
		}
		if concerns(&entries[i], violation) {
			window.Entries = append(window.Entries, entries[i])
		}
	}
	return window
}

// concerns reports whether an entry is about a violation: about an object that it names, a Pod or a
// plan of the task that it names, or what was done to the cluster meanwhile.
func concerns(entry *history.Entry, violation *Violation) bool {
	switch {
	case entry.Fault != nil, entry.Exit != nil, entry.Mark != "":
		return true
	case entry.Intent != nil:
		return names(violation, entry.Intent.Namespace, entry.Intent.Name)
	case entry.Request != nil:
		return names(violation, entry.Request.Namespace, entry.Request.Name)
	case entry.Object == nil:
		return false
	}
	object := entry.Object
	meta := object.Meta()
	if names(violation, meta.Namespace, meta.Name) || strings.Contains(object.String(), violation.Subject) {
		return true
	}
	if object.Pod != nil {
		return names(violation, meta.Namespace, object.Pod.Labels["falldio.com/gputask"])
	}
	return false
}

// names reports whether a violation names an object.
func names(violation *Violation, namespace, name string) bool {
	if name == "" {
		return false
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	subject := violation.Subject
	return subject == name || strings.HasPrefix(subject, name+"-") || strings.HasPrefix(name, subject+"-") || containsWord(violation.Message, name)
}

// containsWord reports whether a text contains a name that is no part of a longer one.
func containsWord(text, name string) bool {
	for {
		_, rest, found := strings.Cut(text, name)
		if !found {
			return false
		}
		if rest == "" || !strings.ContainsAny(rest[:1], "abcdefghijklmnopqrstuvwxyz0123456789-") {
			return true
		}
		text = rest
	}
}
