// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestAmountsAreReadAsNumbersAndAsText(t *testing.T) {
	t.Parallel()
	want := GPUTaskSpec{
		GPUAmount: "8", CPU: "0.5", Memory: "17179869184", GPUMemory: "40G", GPU: "h100", Replicas: new(int32(2)),
		Roles: []Role{{Name: "a", GPUAmount: "0", CPU: "2", Memory: "1Gi", GPUMemory: "1e10", Replicas: new(int32(3))}},
	}
	for name, text := range map[string]string{
		"numbers": `{"gpu-amount": 8, "cpu": 0.5, "memory": 17179869184, "gpuMemory": "40G", "gpu": "h100", "replicas": 2,
			"roles": [{"name": "a", "gpu-amount": 0, "cpu": 2, "memory": "1Gi", "gpuMemory": 1e10, "replicas": 3}]}`,
		"text": `{"gpu-amount": "8", "cpu": "0.5", "memory": "17179869184", "gpuMemory": "40G", "gpu": "h100", "replicas": 2,
			"roles": [{"name": "a", "gpu-amount": "0", "cpu": "2", "memory": "1Gi", "gpuMemory": "1e10", "replicas": 3}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var decoded GPUTask
			if err := json.Unmarshal([]byte(`{"spec": `+text+`}`), &decoded); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, decoded.Spec); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			var object map[string]any
			if err := json.Unmarshal([]byte(`{"spec": `+text+`}`), &object); err != nil {
				t.Fatal(err)
			}
			var converted GPUTask
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &converted); err != nil {
				t.Fatal(err)
			}
			if converted.Spec.GPUAmount != want.GPUAmount || converted.Spec.Roles[0].CPU != "2" {
				t.Errorf("converted: %+v", converted.Spec)
			}
		})
	}
}

// Programs that read "gpu-amount" as text go on working with what is written here.
func TestAmountsAreWrittenAsText(t *testing.T) {
	t.Parallel()
	var spec GPUTaskSpec
	if err := json.Unmarshal([]byte(`{"gpu-amount": 8, "roles": [{"name": "a", "cpu": 2}]}`), &spec); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(spec)
	if want := `{"gpu-amount":"8","roles":[{"name":"a","cpu":"2"}]}`; err != nil || string(text) != want {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
}

func TestFieldsThatAreLeftOutStayAsTheyAre(t *testing.T) {
	t.Parallel()
	spec := GPUTaskSpec{CPU: "4", Memory: "1Gi", Queue: "research"}
	if err := json.Unmarshal([]byte(`{"memory": null, "gpu-amount": 1}`), &spec); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(GPUTaskSpec{CPU: "4", Memory: "1Gi", Queue: "research", GPUAmount: "1"}, spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsNeitherNumberNorTextIsNoAmount(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"cpu": true}`, `{"cpu": {}}`, `{"cpu": ["8"]}`, `{"roles": [{"cpu": false}]}`} {
		if err := json.Unmarshal([]byte(text), &GPUTaskSpec{}); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}
