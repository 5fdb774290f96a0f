// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func readState(t *testing.T, text string) *state {
	t.Helper()
	s := &state{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPodsAndClaimsAreCountedByWhatHasBecomeOfThem(t *testing.T) {
	t.Parallel()
	s := readState(t, `
pods:
- {metadata: {namespace: a}, spec: {nodeName: n}}
- {metadata: {namespace: a}, spec: {nodeName: n}}
- {metadata: {namespace: a, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {nodeName: n}}
- {metadata: {namespace: b}, status: {conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: too large}]}}
- {metadata: {namespace: b}}
claims:
- {metadata: {namespace: b}, status: {allocation: {}, reservedFor: [{uid: x}]}}
- {metadata: {namespace: b}}
`)
	want := `Pods in a: bound: 2
Pods in a: terminating: 1
Pods in b: Unschedulable: 1
Pods in b: new: 1
claims in b: allocated=false for 0: 1
claims in b: allocated=true for 1: 1
`
	if diff := cmp.Diff(want, s.summary()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"too large"}, s.reasons()); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

func TestWhatDoesNotFitIsFound(t *testing.T) {
	t.Parallel()
	s := readState(t, `
nodes:
- {metadata: {name: full}, status: {allocatable: {cpu: "2", pods: "2"}}}
- {metadata: {name: fits}, status: {allocatable: {cpu: "2", pods: "2"}}}
pods:
- {metadata: {namespace: a, name: x}, spec: {nodeName: full, containers: [{name: c, resources: {requests: {cpu: "1.5"}}, ports: [{hostPort: 80, containerPort: 80, protocol: TCP}]}]}}
- {metadata: {namespace: a, name: w}, spec: {nodeName: full, containers: [{name: c, resources: {requests: {cpu: "1", example.com/gpu: "1"}}, ports: [{hostPort: 80, containerPort: 80, protocol: TCP}]}]}}
- {metadata: {namespace: a, name: z}, spec: {nodeName: fits, containers: [{name: c, resources: {requests: {cpu: "2"}}, ports: [{hostPort: 80, containerPort: 80, protocol: TCP}]}]}}
- {metadata: {namespace: a, name: waits}, spec: {containers: [{name: c, resources: {requests: {cpu: "9"}}}]}}
claims:
- {metadata: {namespace: a, name: p}, status: {allocation: {devices: {results: [{request: r, driver: d, pool: q, device: one}]}}}}
- {metadata: {namespace: a, name: q}, status: {allocation: {devices: {results: [{request: r, driver: d, pool: q, device: one}, {request: s, driver: d, pool: q, device: two}]}}}}
- {metadata: {namespace: a, name: admin}, status: {allocation: {devices: {results: [{request: r, driver: d, pool: q, device: two, adminAccess: true}]}}}}
- {metadata: {namespace: a, name: part}, status: {allocation: {devices: {results: [{request: r, driver: d, pool: q, device: two, shareID: "1"}]}}}}
- {metadata: {namespace: a, name: none}}
`)
	want := []string{
		"node full: 2500m of 2 cpu is requested",
		"node full: TCP :80 has several users: a/x, a/w",
		"device d/q/one has several users: a/p, a/q",
	}
	if diff := cmp.Diff(want, s.conflicts()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
