// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing_test

import (
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

func TestAQueueHoldsOnlyWhatNamespacesHoldThatItAccepts(t *testing.T) {
	t.Parallel()
	team := func(name string) func(map[string]string) bool {
		return func(labels map[string]string) bool { return labels["team"] == name }
	}
	tree := queueing.NewTree([]queueing.Queue{
		{Name: "org"},
		{Name: "vision", Parent: "org", Accepts: team("vision"), Priorities: []string{"low"}, MaxRuntime: time.Hour},
		{Name: "speech", Parent: "org", Accepts: team("speech")},
		{Name: "web", Accepts: team("web")}, {Name: "web-batch", Accepts: team("web")},
	})
	tests := map[string]struct {
		team, queue, byDefault, priority string
		want                             string
	}{
		"the one that it names":                            {"web", "web", "web-batch", "", "web"},
		"else the namespace's":                             {"web", "", "web-batch", "", "web-batch"},
		"else the only one that accepts":                   {"vision", "", "", "", "vision"},
		"none if several accept":                           {"web", "", "", "", ""},
		"not another team's, but its own":                  {"speech", "vision", "", "", "speech"},
		"not another team's, but the namespace's default":  {"web", "vision", "web-batch", "", "web-batch"},
		"not another team's, but none":                     {"games", "vision", "", "", ""},
		"not that of its children":                         {"vision", "org", "", "", "vision"},
		"not one that does not exist, but its own":         {"vision", "gone", "", "", "vision"},
		"not a default that does not accept the namespace": {"vision", "", "speech", "", "vision"},
		"its own, also with a priority that may not start": {"vision", "vision", "", "high", "vision"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := queueing.Applicant{
				Namespace: tc.team, NamespaceLabels: map[string]string{"team": tc.team}, Queue: tc.queue, NamespaceQueue: tc.byDefault,
				PriorityClass: tc.priority, MaxRuntime: 2 * time.Hour,
			}
			if got := tree.Holder(&pod); got != tc.want {
				t.Errorf("queue %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWhichQueueAPodIsIn(t *testing.T) {
	t.Parallel()
	team := func(name string) func(map[string]string) bool {
		return func(labels map[string]string) bool { return labels["team"] == name }
	}
	tree := queueing.NewTree([]queueing.Queue{
		{Name: "org"},
		{Name: "vision", Parent: "org", Accepts: team("vision"), Selector: "team=vision", Priorities: []string{"low", ""}, MaxRuntime: time.Hour},
		{Name: "speech", Parent: "org", Accepts: team("speech"), Selector: "team=speech", Priorities: []string{"high"}},
		{Name: "web", Accepts: team("web"), Selector: "team=web"},
		{Name: "web-batch", Accepts: team("web"), Selector: "team=web"},
	})
	in := func(namespace string) queueing.Applicant {
		return queueing.Applicant{Namespace: namespace, NamespaceLabels: map[string]string{"team": namespace}}
	}
	with := func(pod queueing.Applicant, change func(*queueing.Applicant)) queueing.Applicant {
		change(&pod)
		return pod
	}
	tests := map[string]struct {
		pod    queueing.Applicant
		queue  string
		reason queueing.Reason
		says   string
	}{
		"its label decides":              {with(in("web"), func(p *queueing.Applicant) { p.Queue, p.NamespaceQueue = "web", "web-batch" }), "web", "", ""},
		"else the namespace's label":     {with(in("web"), func(p *queueing.Applicant) { p.NamespaceQueue = "web-batch" }), "web-batch", "", ""},
		"else the only one that accepts": {in("vision"), "vision", "", ""},
		"none if several accept":         {in("web"), "", "", ""},
		"none if none accepts":           {in("games"), "", "", ""},
		"a queue that does not exist": {with(in("web"), func(p *queueing.Applicant) { p.Queue = "gone" }), "gone", queueing.QueueNotFound,
			`there is no GPUQueue "gone": create it, or name another one`},
		"a default that does not exist": {with(in("web"), func(p *queueing.Applicant) { p.NamespaceQueue = "gone" }), "gone", queueing.QueueNotFound,
			`there is no GPUQueue "gone" (it is the default of the namespace, from its label falldio.com/queue=gone): create it, or name another one`},
		"a queue for other namespaces": {with(in("web"), func(p *queueing.Applicant) { p.Queue = "vision" }), "vision", queueing.NamespaceNotAccepted,
			"queue vision does not accept namespace web: its namespaceSelector is team=vision"},
		"a queue for its children": {with(in("web"), func(p *queueing.Applicant) { p.Queue = "org" }), "org", queueing.NamespaceNotAccepted,
			"queue org accepts no namespace, because it has no namespaceSelector: name another queue"},
		"a priority that is not listed": {with(in("vision"), func(p *queueing.Applicant) { p.PriorityClass = "high" }), "vision", queueing.PriorityNotAccepted,
			"queue vision (it is the only queue that accepts the namespace) does not accept PriorityClass high: it accepts low, none"},
		"a priority that is listed": {with(in("vision"), func(p *queueing.Applicant) { p.Queue, p.PriorityClass = "vision", "low" }), "vision", "", ""},
		"no priority where one is needed": {with(in("speech"), func(p *queueing.Applicant) { p.Queue = "speech" }), "speech", queueing.PriorityNotAccepted,
			"queue speech does not accept Pods without a PriorityClass: it accepts high"},
		"a run that may take too long": {with(in("vision"), func(p *queueing.Applicant) { p.Queue, p.MaxRuntime = "vision", 2*time.Hour }), "vision", queueing.RuntimeTooLong,
			"tasks in queue vision may run for at most 1h0m0s, but maxRuntimeSeconds allows 2h0m0s: lower it, or name another queue"},
		"a run that just fits": {with(in("vision"), func(p *queueing.Applicant) { p.Queue, p.MaxRuntime = "vision", time.Hour }), "vision", "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tree.Assign(&tc.pod)
			says := ""
			if got.Problem != nil {
				says = got.Problem.Message
			}
			if got.Queue != tc.queue || reasonOf(got.Problem) != tc.reason || says != tc.says {
				t.Errorf("queue %q, reason %q, %q\nwant %q, %q, %q", got.Queue, reasonOf(got.Problem), says, tc.queue, tc.reason, tc.says)
			}
		})
	}
}

// TestWithoutQueuesOnlyWhatNamesOneWaits: the default of a namespace means nothing in such a cluster.
func TestWithoutQueuesOnlyWhatNamesOneWaits(t *testing.T) {
	t.Parallel()
	for name, tree := range map[string]*queueing.Tree{"no tree": nil, "an empty one": queueing.NewTree(nil)} {
		if got := tree.Assign(&queueing.Applicant{NamespaceQueue: "vision"}); got.Queue != queueing.NoQueue || got.Problem != nil {
			t.Errorf("%s: what names no queue is in %q, %v", name, got.Queue, got.Problem)
		}
		if got := tree.Assign(&queueing.Applicant{Queue: "vision"}); got.Problem == nil || got.Problem.Reason != queueing.QueueNotFound {
			t.Errorf("%s: what names a queue has the problem %v", name, got.Problem)
		}
		if tree.HasQueues() {
			t.Errorf("%s has queues", name)
		}
	}
}
