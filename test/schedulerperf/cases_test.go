// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulerperf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const cases = `
- name: Basic
  labels: [short]
  featureGates: {A: true}
  workloadTemplate:
  - {opcode: createNodes}
  - {opcode: churn}
  workloads:
  - {name: small, labels: [integration-test], params: {nodes: 5}}
  - {name: both, labels: [integration-test, performance]}
  - {name: large, labels: [performance], featureGates: {B: false}}
`

func readCase(t *testing.T) Case {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "a", "b")
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, casesFile), []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	topics, err := Topics(folder)
	if err != nil || !cmp.Equal(topics, []string{"a/b"}) {
		t.Fatalf("topics %v, error %v", topics, err)
	}
	read, err := Cases(folder, topics[0])
	if err != nil || len(read) != 1 || read[0].Name() != "Basic" {
		t.Fatalf("cases %v, error %v", read, err)
	}
	return read[0]
}

func TestAFolderWithoutTestCasesIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := Topics(t.TempDir()); err == nil {
		t.Error("there is no error")
	}
}

func TestLabelsOfTheCaseAndOfTheWorkloadCount(t *testing.T) {
	t.Parallel()
	one := readCase(t)
	if got := one.Workloads("integration-test", "performance"); !cmp.Equal(got, []string{"small"}) {
		t.Errorf("got %v", got)
	}
	if got := one.Workloads("short", "performance"); !cmp.Equal(got, []string{"small"}) {
		t.Errorf("got %v", got)
	}
	if got := one.Workloads("performance", "integration-test"); !cmp.Equal(got, []string{"large"}) {
		t.Errorf("got %v", got)
	}
}

func TestOneWorkloadIsLeftAndTheCaseIsNotChanged(t *testing.T) {
	t.Parallel()
	one := readCase(t)
	if got := one.Only("small").Workloads("short", ""); !cmp.Equal(got, []string{"small"}) {
		t.Errorf("got %v", got)
	}
	changed := objects(one.Only("small").Changed(map[string]int{"nodes": 50})["workloads"])[0]
	if diff := cmp.Diff(map[string]any{"nodes": 50}, changed["params"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := objects(one["workloads"])[0]["params"]; !cmp.Equal(got, map[string]any{"nodes": 5.0}) {
		t.Errorf("the parameters of the case have been changed: %v", got)
	}
	own := one.WithParams(map[string]int{"nodes": 500})
	want := []any{map[string]any{"name": "x", "params": map[string]int{"nodes": 500}}}
	if diff := cmp.Diff(want, own["workloads"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := one.Workloads("short", ""); len(got) != 3 {
		t.Errorf("the case has been changed: %v", got)
	}
}

func TestOperationsAreFound(t *testing.T) {
	t.Parallel()
	if one := readCase(t); !one.Does("churn") || one.Does("deletePods") {
		t.Errorf("churn %t, deletePods %t", one.Does("churn"), one.Does("deletePods"))
	}
}

func TestAFeatureGateOfTheCaseOrItsWorkloadStays(t *testing.T) {
	t.Parallel()
	one := readCase(t)
	for gate, want := range map[string]any{"A": map[string]any{"A": true}, "B": map[string]any{"A": true}, "C": map[string]any{"A": true, "C": false}} {
		if diff := cmp.Diff(want, one.WithGate(gate, false)["featureGates"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", gate, diff)
		}
	}
}
