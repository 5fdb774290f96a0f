// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodWarning is what Warning Events say about Pods of a task: why a node can't start them, above all.
type PodWarning struct {
	// Pods are the names of the Pods about which it is said.
	Pods    []string `json:"pods"`
	Reason  string   `json:"reason"`
	Message string   `json:"message"`
	// Time is when it was said last.
	Time metav1.Time `json:"time"`
}

// PodWarnings returns what Events say about Pods, the latest last. What is said about several Pods is listed once.
func PodWarnings(events []corev1.Event, pods []types.UID) []PodWarning {
	var list []PodWarning
	for i := range events {
		event := &events[i]
		if event.Type != corev1.EventTypeWarning || !slices.Contains(pods, event.InvolvedObject.UID) {
			continue
		}
		at := slices.IndexFunc(list, func(w PodWarning) bool { return w.Reason == event.Reason && w.Message == event.Message })
		if at < 0 {
			at = len(list)
			list = append(list, PodWarning{Reason: event.Reason, Message: event.Message})
		}
		same := &list[at]
		same.Pods = append(same.Pods, event.InvolvedObject.Name)
		if said := TimeOf(event); said.After(same.Time.Time) {
			same.Time = metav1.NewTime(said)
		}
	}
	for i := range list {
		slices.Sort(list[i].Pods)
		list[i].Pods = slices.Compact(list[i].Pods)
	}
	slices.SortFunc(list, func(a, b PodWarning) int {
		return cmp.Or(a.Time.Compare(b.Time.Time), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return list
}

// TimeOf returns when an Event last occurred.
func TimeOf(event *corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	default:
		return event.CreationTimestamp.Time
	}
}
