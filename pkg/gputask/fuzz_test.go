// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzDecide decides about any stored task and any of its Pods: both may have been written by somebody
// else, or by another version. Whatever they are, there is a decision or an error, the same one each
// time; no Pod is created that exists, and none is deleted that was not given.
func FuzzDecide(f *testing.F) {
	add := func(task taskBuilder, pods ...podBuilder) {
		text, err := json.Marshal(task.GPUTask)
		if err != nil {
			f.Fatal(err)
		}
		var list []*corev1.Pod
		for _, pod := range pods {
			list = append(list, pod.Pod)
		}
		podTexts, err := json.Marshal(list)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, podTexts, []byte(nil))
	}
	gang := makeTask("train").replicas(3).minAvailable(2).started(time.Hour).phase(v1.PhaseRunning)
	add(gang, gang.pod(0, 0).running("node-1"), gang.pod(1, 0).failed(time.Minute), gang.pod(2, 0).succeeded())
	add(makeTask("one").suspended().restarted(2, time.Minute))
	add(makeTask("array").with(func(t *v1.GPUTask) {
		t.Spec.Completions, t.Spec.BackoffLimitPerIndex, t.Status.CompletedIndexes, t.Status.FailedIndexes = new(int32(5)), new(int32(1)), "0,2-4", "1"
	}))
	add(makeTask("roles").with(func(t *v1.GPUTask) {
		t.Spec.Roles = []v1.Role{{Name: "a", GPUAmount: "0"}, {Name: "b", Replicas: new(int32(2))}}
		t.Spec.SuccessPolicy = &v1.SuccessPolicy{Rules: []v1.SuccessRule{{Role: "a"}}}
		t.Annotations = map[string]string{v1.AnnotationLastCheckpoint: "2026-11-21T11:00:00Z"}
	}))
	f.Add([]byte(`{"metadata":{"name":"a"},"status":{"completedIndexes":"0-65535","podRestarts":[{"index":-1},{"index":7}],"restarts":2147483647,"startTime":"0001-01-01T00:00:00Z","startedAt":null}}`), []byte(`[{"metadata":{"name":"a","labels":{"falldio.com/attempt":"2147483647"},"annotations":{"falldio.com/start-estimate":"{}"}}}]`), []byte(nil))
	f.Fuzz(func(t *testing.T, taskText, podTexts []byte, edits []byte) {
		taskText, podTexts = fuzzjson.Edit(taskText, edits[:len(edits)/2]), fuzzjson.Edit(podTexts, edits[len(edits)/2:])
		task, pods := &v1.GPUTask{}, []*corev1.Pod{}
		if json.Unmarshal(taskText, task) != nil || json.Unmarshal(podTexts, &pods) != nil || Total(task) > 200 {
			return
		}
		names := map[string]*corev1.Pod{}
		for i, pod := range pods {
			if pod == nil || names[pod.Name] != nil {
				return // no cache has such Pods
			}
			names[pod.Name], pod.UID = pod, types.UID(string(rune('a'+i%26))+pod.Name)
		}
		limits := fuzzlimit.Limits{Bytes: 64 << 20, PerByte: 32 << 10, CPU: 10 * time.Second}
		fuzzlimit.Check(t, limits, len(taskText)+len(podTexts), func() { checkDecision(t, task, pods, names) })
	})
}

func checkDecision(t *testing.T, task *v1.GPUTask, pods []*corev1.Pod, names map[string]*corev1.Pod) {
	t.Helper()
	decide := func() (Plan, string) {
		plan, err := Decide(Input{Task: task, Pods: pods, Lookup: lookup(), Now: now, Config: testConfig})
		if err != nil {
			return plan, err.Error()
		}
		text, err := json.Marshal([]any{plan.Status, created(&plan), plan.RequeueAfter, len(plan.Delete), plan.DeleteTask})
		if err != nil {
			t.Fatalf("the plan can't be written: %v", err)
		}
		return plan, string(text)
	}
	plan, first := decide()
	if _, second := decide(); second != first {
		t.Errorf("two decisions about the same differ:\n%s\n%s", first, second)
	}
	seen := map[string]bool{}
	for _, pod := range created(&plan) {
		if names[pod.Name] != nil || seen[pod.Name] {
			t.Errorf("Pod %s is created though it exists", pod.Name)
		}
		seen[pod.Name] = true
		if !metav1.IsControlledBy(pod, task) {
			t.Errorf("Pod %s is created for somebody else", pod.Name)
		}
	}
	for _, pod := range append(plan.Delete, plan.ForceDelete...) {
		if names[pod.Name] != pod {
			t.Errorf("Pod %s is deleted, which is not among those of the task", pod.Name)
		}
	}
	if plan.RequeueAfter < 0 {
		t.Errorf("the next decision is due in %v", plan.RequeueAfter)
	}
}
