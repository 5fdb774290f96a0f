// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzWorkload reads any object as a Workload of Kueue, and asks what it allows a task. A task gets
// no more Pods than its Workload has, none that is not admitted, and the object survives being
// written again.
func FuzzWorkload(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"gputask-train-1","namespace":"default"},`+
		`"spec":{"queueName":"q","podSets":[{"name":"main","count":4,"minCount":2,"template":{"spec":{"containers":[{"name":"gpu-task"}]}}}]},`+
		`"status":{"admission":{"clusterQueue":"c","podSetAssignments":[{"name":"main","flavors":{"falldio.com/gpu":"h100"},"count":3}]},`+
		`"conditions":[{"type":"QuotaReserved","status":"True","reason":"r","message":"m","lastTransitionTime":"2026-11-21T12:00:00Z"},{"type":"Admitted","status":"True"}],`+
		`"admissionChecks":[{"name":"gpu-fit","state":"Ready","podSetUpdates":[{"name":"main","labels":{"a":"b"},"nodeSelector":{"c":"d"}}]}],"reclaimablePods":[{"name":"main","count":1}]}}`), []byte(nil))
	f.Add([]byte(`{"spec":{"podSets":[{"name":"main","count":2147483647}]},"status":{"admission":{"podSetAssignments":[{"name":"main","count":-5,"topologyAssignment":{}}]},"reclaimablePods":[{"name":"main","count":-2147483648}],"conditions":[{"type":"QuotaReserved","status":"True"},{"type":"Admitted","status":"True"}]}}`), []byte(nil))
	f.Add([]byte(`{"spec":{"active":false},"metadata":{"deletionTimestamp":"2026-11-21T12:00:00Z"},"status":{"conditions":[{"type":"Evicted","status":"True"},{"type":"QuotaReserved","status":"True"}]}}`), []byte(nil))
	f.Fuzz(func(t *testing.T, data []byte, edits []byte) {
		data = fuzzjson.Edit(data, edits)
		content := map[string]any{}
		if err := json.Unmarshal(data, &content); err != nil {
			return
		}
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(data), func() {
			workload, err := Read[Workload](&unstructured.Unstructured{Object: content})
			if err != nil {
				return
			}
			checkWorkload(t, workload)
			written, err := workload.Unstructured()
			if err != nil {
				t.Fatalf("it can't be written: %v", err)
			}
			if _, err := Read[Workload](written); err != nil {
				t.Errorf("it can't be read again: %v", err)
			}
		})
	})
}

func checkWorkload(t *testing.T, workload *Workload) {
	t.Helper()
	task := &v1.GPUTask{}
	task.Name, task.Labels = "train", map[string]string{LabelQueue: "q"}
	flavors := func(name string) *ResourceFlavor {
		if name == "missing" {
			return nil
		}
		flavor := &ResourceFlavor{}
		flavor.Spec.NodeLabels = map[string]string{"flavor": name}
		return flavor
	}
	admission, err := AdmissionOf(task, workload, flavors)
	if err != nil {
		return
	}
	if !admission.Admitted && admission.Reason == "" {
		t.Error("a task is held back without a reason")
	}
	if admission.Admitted && !workload.reserved() {
		t.Error("a task is admitted without quota")
	}
	most := int32(0)
	for i := range workload.Spec.PodSets {
		most = max(most, workload.Spec.PodSets[i].Count)
	}
	for role, grant := range admission.Grants {
		if grant.Pods < 0 || grant.Pods > int(most) {
			t.Errorf("role %q is granted %d Pods, the Workload has at most %d in a pod set", role, grant.Pods, most)
		}
	}
	if workload.Asks("gpu-fit") && workload.Arrives("gpu-fit") {
		t.Error("a check is both asked and answered")
	}
}
