// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const apiMetrics = `# HELP apiserver_request_total Counter of requests
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 7
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 6
apiserver_request_total{code="409",resource="pods",subresource="binding",verb="POST"} 3
apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 9
apiserver_request_total{code="200",resource="leases",subresource="",verb="PUT"} 100
apiserver_request_total{code="200",resource="nodes",subresource="status",verb="PATCH"} 11
# TYPE apiserver_request_total_other counter
apiserver_request_total_other{code="200",resource="pods",verb="POST"} 5
`

func TestSuccessfulWritesAreCountedByResource(t *testing.T) {
	t.Parallel()
	got, err := parseWrites([]byte(apiMetrics))
	if err != nil {
		t.Fatal(err)
	}
	want := counts{background: 111, writes: map[string]int{"pods POST": 7, "pods/binding POST": 6}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(counts{})); diff != "" {
		t.Error(diff)
	}
	later := counts{puts: 30, background: 120, writes: map[string]int{"pods POST": 9, "pods/binding POST": 6}}
	want = counts{puts: 30, background: 9, writes: map[string]int{"pods POST": 2}, bindings: map[float64]int{}}
	if diff := cmp.Diff(want, later.since(got), cmp.AllowUnexported(counts{})); diff != "" {
		t.Error(diff)
	}
}

func TestPutsAreRead(t *testing.T) {
	t.Parallel()
	got, err := parsePuts([]byte("# TYPE etcd_mvcc_put_total counter\netcd_mvcc_put_total 11398\n"))
	if err != nil || got != 11398 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := parsePuts([]byte("other 1\n")); err == nil {
		t.Error("a missing metric is no error")
	}
}

func TestTheSlowestBindingIsFound(t *testing.T) {
	t.Parallel()
	text := `# TYPE apiserver_request_duration_seconds histogram
apiserver_request_duration_seconds_bucket{resource="pods",subresource="binding",verb="POST",le="0.1"} 5
apiserver_request_duration_seconds_bucket{resource="pods",subresource="binding",verb="POST",le="0.2"} 9
apiserver_request_duration_seconds_bucket{resource="pods",subresource="binding",verb="POST",le="0.4"} 9
apiserver_request_duration_seconds_bucket{resource="pods",subresource="binding",verb="POST",le="+Inf"} 9
apiserver_request_duration_seconds_bucket{resource="pods",subresource="",verb="POST",le="0.1"} 1
`
	bindings, err := parseBindings([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	now := counts{bindings: bindings}
	if got := now.slowestBinding(); got != 0.2 {
		t.Errorf("got %v, want 0.2", got)
	}
	before := counts{bindings: map[float64]int{0.1: 4, 0.2: 8, 0.4: 8, math.Inf(1): 8}}
	if got := now.since(before).slowestBinding(); got != 0.1 {
		t.Errorf("since then: got %v, want 0.1", got)
	}
}

func TestProcessorTimesOfTheMachineAreRead(t *testing.T) {
	t.Parallel()
	got, err := parseMachine("cpu  100 0 50 9000 77 0 10 40 0 0\ncpu0 1\n")
	if err != nil || got != 2 {
		t.Errorf("the machine: got %v, %v", got, err)
	}
}
