// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// All requests but one are dry runs.
func TestTheEventsOfAnAgentAreAboutItsNodeOrPods(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	about := func(kind, name string) func(*corev1.Event) {
		return func(event *corev1.Event) {
			event.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: kind, Name: name, Namespace: s.namespace}
		}
	}
	from := func(component, host string) func(*corev1.Event) {
		return func(event *corev1.Event) { event.Source = corev1.EventSource{Component: component, Host: host} }
	}
	tests := map[string]struct {
		agentOf string
		change  func(*corev1.Event)
		refusal string // part of the error; empty if it is allowed
	}{
		"a Pod":                    {"h100-0", about("Pod", "train"), ""},
		"its Node":                 {"h100-0", about("Node", "h100-0"), ""},
		"another Node":             {"h100-0", about("Node", "h100-1"), "writes Events about its Node and about Pods"},
		"something else":           {"h100-0", about("ConfigMap", "x"), "writes Events about its Node and about Pods"},
		"in the name of another":   {"h100-0", from("nodeagent", "h100-1"), "must have it as their source"},
		"in the name of a kubelet": {"h100-0", from("kubelet", "h100-0"), "must have it as their source"},
		"without a source":         {"h100-0", from("", ""), "must have it as their source"},
		"no node in token":         {"", about("Pod", "train"), "nodeagent needs a token that is bound to a Node"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			event := s.eventOf("h100-0")
			test.change(event)
			_, err := s.asAgentOf(test.agentOf).CoreV1().Events(s.namespace).Create(t.Context(), event, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			expectRefusalBy(t, "nodeagent-events", err, test.refusal)
		})
	}
}

func TestAnAgentCountsOnlyItsOwnEvents(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	event, err := s.asAgentOf("h100-0").CoreV1().Events(s.namespace).Create(t.Context(), s.eventOf("h100-0"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for agentOf, test := range map[string]struct{ patch, refusal string }{
		"h100-0": {`{"count": 2}`, ""},
		"h100-1": {`{"count": 2, "source": {"host": "h100-1"}}`, "must have it as their source"},
	} {
		_, err := s.asAgentOf(agentOf).CoreV1().Events(s.namespace).Patch(t.Context(), event.Name, types.StrategicMergePatchType, []byte(test.patch), dryRun())
		expectRefusalBy(t, "nodeagent-events", err, test.refusal)
	}
}

// eventOf returns an Event about a Pod by the agent of a node.
func (s *suite) eventOf(node string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "event-"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: "train", Namespace: s.namespace},
		Reason:         "GPUShareNotEnforced", Source: corev1.EventSource{Component: "nodeagent", Host: node},
	}
}
