// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/enforcement"
)

// began is when the agent did.
var began = time.Date(2026, 11, 24, 12, 0, 0, 700_000_000, time.UTC)

// podAt is a Pod that has started some seconds after the agent.
func podAt(name string, uid types.UID, seconds int) *corev1.Pod {
	started := metav1.NewTime(began.Truncate(time.Second).Add(time.Duration(seconds) * time.Second))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "research", Name: name, UID: uid},
		Status:     corev1.PodStatus{StartTime: &started},
	}
}

// says is a statement about a container of the Pod train.
func says(container, given string) enforcement.Statement {
	return enforcement.Statement{
		Pod: types.NamespacedName{Namespace: "research", Name: "train"}, Container: container, GPU: "GPU-a", Percent: 46, Given: given,
	}
}

// drain returns the Events that have been written.
func drain(recorder *record.FakeRecorder) (events []string) {
	for {
		select {
		case event := <-recorder.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}

const (
	unlimited = "Warning GPUShareNotEnforced Container gpu-task has 46 % of GPU GPU-a, but nothing limits it to that: " +
		"ask the administrator for a node with NVIDIA's MPS (nodeagent --mps), or request a whole GPU"
	daemonDown = "Warning GPUShareNotEnforced Container gpu-task has 46 % of GPU GPU-a, but nothing limits it to that: " +
		"the node's MPS daemon did not run when the Pod started; a new Pod gets limits once it runs"
)

func TestAPodIsToldThatItsShareIsNotEnforced(t *testing.T) {
	t.Parallel()
	notStarted := podAt("train", "uid-1", 5)
	notStarted.Status.StartTime = nil
	tests := map[string]struct {
		limited    bool
		pod        *corev1.Pod
		statements []enforcement.Statement
		want       []string
	}{
		"nothing limits it":               {false, podAt("train", "uid-1", 5), []enforcement.Statement{says("gpu-task", "none")}, []string{unlimited}},
		"the daemon did not run":          {true, podAt("train", "uid-1", 5), []enforcement.Statement{says("gpu-task", "none")}, []string{daemonDown}},
		"it has started with the agent":   {false, podAt("train", "uid-1", 0), []enforcement.Statement{says("gpu-task", "none")}, []string{unlimited}},
		"MPS limits it":                   {true, podAt("train", "uid-1", 5), []enforcement.Statement{says("gpu-task", "mps")}, nil},
		"nobody knows":                    {true, podAt("train", "uid-1", 5), []enforcement.Statement{says("gpu-task", "unknown")}, nil},
		"it has started before the agent": {false, podAt("train", "uid-1", -1), []enforcement.Statement{says("gpu-task", "none")}, nil},
		"it has not started yet":          {false, notStarted, []enforcement.Statement{says("gpu-task", "none")}, nil},
		"it is gone":                      {false, podAt("other", "uid-2", 5), []enforcement.Statement{says("gpu-task", "none")}, nil},
		"once for all of its containers": {
			false, podAt("train", "uid-1", 5), []enforcement.Statement{says("gpu-task", "none"), says("helper", "none")}, []string{unlimited},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder := record.NewFakeRecorder(10)
			events := NewShareEvents(recorder, began, test.limited)
			for range 2 { // the second time changes nothing
				events.Write([]*corev1.Pod{test.pod}, test.statements)
			}
			if diff := cmp.Diff(test.want, drain(recorder)); diff != "" {
				t.Errorf("Events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestANewPodOfTheSameNameIsToldToo(t *testing.T) {
	t.Parallel()
	recorder := record.NewFakeRecorder(10)
	events := NewShareEvents(recorder, began, false)
	statements := []enforcement.Statement{says("gpu-task", "none")}
	for _, uid := range []types.UID{"uid-1", "uid-2"} {
		events.Write([]*corev1.Pod{podAt("train", uid, 5)}, statements)
	}
	if diff := cmp.Diff([]string{unlimited, unlimited}, drain(recorder)); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}
