// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accepted_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// FuzzStatus decides about one of the shipped tasks whose Pods have got any annotations and any status,
// again and again. The API server accepts each status that the controller writes: one that is refused
// would keep it from counting anything of the task.
func FuzzStatus(f *testing.F) {
	tasks := examples(f)
	for i := range tasks {
		f.Add(uint8(i), []byte(`{"annotations":{"falldio.com/start-estimate":"{\"earliest\":\"2026-11-21T12:00:00Z\",\"likely\":\"2026-11-21T12:00:00Z\",\"latest\":\"2026-11-21T13:00:00Z\",\"position\":1}"}}`), []byte(`{"phase":"Pending"}`), []byte(nil))
	}
	f.Add(uint8(0), []byte(`{"annotations":{"falldio.com/start-estimate":"{}"}}`), []byte(`{"phase":"Pending"}`), []byte(nil))
	f.Add(uint8(1), []byte(`{"deletionTimestamp":"2026-11-21T11:00:00Z"}`), []byte(`{"phase":"Failed","reason":"Evicted","message":"no room","startTime":null,"containerStatuses":[{"name":"gpu-task","restartCount":3,"state":{"terminated":{"exitCode":137,"reason":"OOMKilled","message":"killed","finishedAt":"2026-11-21T11:00:00Z"}}}]}`), []byte(nil))
	f.Add(uint8(2), []byte(`{}`), []byte(`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes are available"}],"containerStatuses":[{"state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}`), []byte(nil))
	validate := validator(f, "gputasks")
	f.Fuzz(func(t *testing.T, number uint8, metadata, podStatus, edits []byte) {
		object := objectIn(tasks[int(number)%len(tasks)])
		if object == nil || validate.Create(object) != nil {
			return
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		s := &stored{validate: validate, object: object, task: &v1.GPUTask{}}
		if json.Unmarshal(text, s.task) != nil || s.task.Kind != v1.TaskKind().Kind || gputask.Total(s.task) > 40 {
			return
		}
		s.task.Namespace, s.task.UID, s.task.CreationTimestamp = "default", "uid", metav1.NewTime(noon())
		s.task.Spec.DependsOn, s.task.Spec.Suspend = nil, nil
		delete(s.object, "status")
		s.live(t, fuzzjson.Edit(metadata, edits[:len(edits)/2]), fuzzjson.Edit(podStatus, edits[len(edits)/2:]))
	})
}

// live decides three times, with Pods that have got the metadata and the status.
func (s *stored) live(t *testing.T, metadata, podStatus []byte) {
	t.Helper()
	var pods []*corev1.Pod
	for round := range 3 {
		plan, err := gputask.Decide(gputask.Input{Task: s.task, Pods: pods, Now: noon().Add(time.Duration(round) * time.Minute), Config: gputask.Config{Pods: gputask.PodDefaults{Image: "any"}}})
		if err != nil {
			t.Fatalf("no decision: %v", err)
		}
		created := build(t, &plan)
		s.write(t, &plan.Status)
		pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return slices.Contains(plan.Delete, pod) })
		for _, pod := range created {
			own := pod.ObjectMeta.DeepCopy()
			if json.Unmarshal(metadata, &pod.ObjectMeta) != nil || json.Unmarshal(podStatus, &pod.Status) != nil {
				return
			}
			pod.Name, pod.Namespace, pod.OwnerReferences, pod.Labels = own.Name, own.Namespace, own.OwnerReferences, own.Labels
			pod.UID, pod.CreationTimestamp = types.UID(own.Name), metav1.NewTime(noon())
			if pod.Status.Phase != corev1.PodPending {
				pod.Spec.NodeName = "node"
			}
			pods = append(pods, pod)
		}
	}
}
