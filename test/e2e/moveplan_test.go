// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// movePlan is a plan as the rescheduler proposes it, and move its only move.
const (
	movePlan = `
spec:
  goal: PendingTask
  reason: a test
  for: {namespace: default, name: big}
  places: [{pod: big, node: node-1, gpus: [GPU-1]}]
  costGPUSeconds: 5
  gain: {gpus: 1}
  moves: [` + move + `]
`
	move = `{turn: 0, task: {namespace: default, name: small}, pod: small, podUID: x, from: {node: node-1}, to: {node: node-2}, costGPUSeconds: 5, lostGPUSeconds: 3}`
)

func (s *suite) createPlan(text string) (*v1.MovePlan, error) {
	s.Helper()
	plan := &v1.MovePlan{}
	if err := yaml.Unmarshal([]byte(text), plan); err != nil {
		s.Fatal(err)
	}
	plan.GenerateName = s.namespace + "-"
	plans := s.cluster.tasks.FalldioV1().MovePlans()
	created, err := plans.Create(s.Context(), plan, metav1.CreateOptions{})
	if err == nil {
		s.Cleanup(func() {
			if err := plans.Delete(context.WithoutCancel(s.Context()), created.Name, metav1.DeleteOptions{}); err != nil {
				s.Errorf("deleting the plan: %v", err)
			}
		})
	}
	return created, err
}

func TestAMovePlanThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tests := map[string]struct{ old, new, want string }{
		"as the rescheduler makes it": {"", "", ""},
		"another goal":                {"PendingTask", "Tidiness", `spec.goal: Unsupported value: "Tidiness"`},
		"a negative cost":             {"costGPUSeconds: 5\n  gain", "costGPUSeconds: -5\n  gain", "spec.costGPUSeconds: Invalid value: -5"},
		"a negative turn":             {"turn: 0", "turn: -1", "spec.moves[0].turn: Invalid value: -1"},
		"a Pod's name without end":    {"pod: small,", "pod: " + strings.Repeat("x", 64) + ",", "spec.moves[0].pod: Too long"},
		"no moves":                    {move, "", "spec.moves: Invalid value: 0: spec.moves in body should have at least 1 items"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &suite{T: t, cluster: s.cluster, namespace: s.namespace}
			_, err := s.createPlan(strings.Replace(movePlan, test.old, test.new, 1))
			checkRefusal(t, err, test.want)
		})
	}
}

func TestAMovePlanCanOnlyBeApprovedAndAborted(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	const immutable = "is immutable, except for approved and abort"
	tests := map[string]struct {
		// first is a patch that is applied before; empty for none.
		first, patch string
		want         string
	}{
		"it is approved":              {"", `{"spec": {"approved": true}}`, ""},
		"it is aborted":               {"", `{"spec": {"abort": true}}`, ""},
		"an approval stays":           {`{"spec": {"approved": true}}`, `{"spec": {"approved": false}}`, "spec.approved: Invalid value: can't be withdrawn: set abort to stop the plan"},
		"an abort stays":              {`{"spec": {"abort": true}}`, `{"spec": {"abort": false}}`, "spec.abort: Invalid value: can't be withdrawn: the rescheduler proposes a new plan"},
		"the goal may not change":     {"", `{"spec": {"goal": "Capacity"}}`, immutable},
		"the moves may not change":    {"", `{"spec": {"moves": [{"turn": 0, "task": {"namespace": "a", "name": "b"}, "pod": "c", "podUID": "d", "from": {}, "to": {}, "costGPUSeconds": 5, "lostGPUSeconds": 3}]}}`, immutable},
		"the cost may not change":     {"", `{"spec": {"costGPUSeconds": 0}}`, immutable},
		"the gain may not change":     {"", `{"spec": {"gain": {"gpus": 8}}}`, immutable},
		"the task may not be dropped": {"", `{"spec": {"for": null}}`, immutable},
		"the places may not change":   {"", `{"spec": {"places": []}}`, immutable},
		"the reason may not change":   {"", `{"spec": {"reason": "another"}}`, immutable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &suite{T: t, cluster: s.cluster, namespace: s.namespace}
			plan, err := s.createPlan(movePlan)
			if err != nil {
				t.Fatal(err)
			}
			for _, patch := range []string{test.first, test.patch} {
				if patch == "" {
					continue
				}
				_, err = s.cluster.tasks.FalldioV1().MovePlans().Patch(t.Context(), plan.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				if err != nil && patch == test.first {
					t.Fatal(err)
				}
			}
			checkRefusal(t, err, test.want)
		})
	}
}
