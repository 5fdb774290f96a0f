// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// FoldedEvent is what one or more Events say.
type FoldedEvent struct {
	Type, Reason, From, Message string
	// Objects are the names of those about which it is said.
	Objects []string
	// Count is how often it was said, the first and the last time at these times.
	Count       int
	First, Last time.Time
}

// FoldEvents returns what Events say, the latest last. What is said several times is listed once.
func FoldEvents(events []corev1.Event) []FoldedEvent {
	var list []FoldedEvent
	for i := range events {
		event := &events[i]
		one := FoldedEvent{Type: event.Type, Reason: event.Reason, From: cmp.Or(event.ReportingController, event.Source.Component), Message: event.Message}
		at := slices.IndexFunc(list, func(known FoldedEvent) bool {
			return known.Type == one.Type && known.Reason == one.Reason && known.From == one.From && known.Message == one.Message
		})
		if at < 0 {
			at = len(list)
			one.First, one.Last = firstTimeOf(event), TimeOf(event)
			list = append(list, one)
		}
		same := &list[at]
		same.Objects = append(same.Objects, event.InvolvedObject.Name)
		same.Count += countOf(event)
		if first := firstTimeOf(event); first.Before(same.First) {
			same.First = first
		}
		if last := TimeOf(event); last.After(same.Last) {
			same.Last = last
		}
	}
	for i := range list {
		slices.SortFunc(list[i].Objects, ComparePodNames)
		list[i].Objects = slices.Compact(list[i].Objects)
	}
	slices.SortStableFunc(list, func(a, b FoldedEvent) int {
		return cmp.Or(a.Last.Compare(b.Last), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return list
}

// countOf returns how often an Event has occurred.
func countOf(event *corev1.Event) int {
	if event.Series != nil {
		return int(max(1, event.Series.Count))
	}
	return int(max(1, event.Count))
}

// firstTimeOf returns when an Event occurred first.
func firstTimeOf(event *corev1.Event) time.Time {
	switch {
	case !event.FirstTimestamp.IsZero():
		return event.FirstTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	default:
		return TimeOf(event)
	}
}
