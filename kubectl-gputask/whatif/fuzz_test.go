// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// FuzzAsk asks about any tasks, which the API server may not have checked. There is an answer within
// bounds of time and memory, or an error; a task that fits has a place for each Pod that must start,
// and a task that is asked about twice does not get the same GPUs twice.
func FuzzAsk(f *testing.F) {
	const task = "apiVersion: falldio.com/v1\nkind: GPUTask\n"
	f.Add([]byte(task + "metadata: {name: a, namespace: default}\nspec: {gpu-amount: \"2\", cpu: \"1\"}\n---\n" + task + "metadata: {name: b}\nspec: {gpu-amount: \"0.5\", replicas: 3, minAvailable: 2}\n"))
	f.Add([]byte(task + "metadata: {name: a}\nspec: {replicas: 2000000000, gpu-amount: \"1\"}\n"))
	f.Add([]byte(task + "metadata: {name: a}\nspec: {completions: 2147483647, replicas: -5}\n"))
	f.Add([]byte(task + "metadata: {name: a}\nspec: {roles: [{name: x, replicas: 2147483647}, {name: y, replicas: 2147483647}]}\n"))
	f.Add([]byte(task + "metadata: {name: a}\nspec: {gpu-amount: \"-1\", memory: \"-1\", cpu: 9E, gpuMemory: 1e99, topology: {level: leaf, mode: Required}, replicas: 2}\n"))
	f.Add([]byte("# nothing\n---\n---\nkind: Pod\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzlimit.Check(t, fuzzlimit.Limits{Bytes: 1 << 30, PerByte: 64 << 10, CPU: 30 * time.Second}, len(text), func() {
			found, err := Parse(bytes.NewReader(text), "the text")
			if err != nil {
				return
			}
			observed := observation()
			for _, task := range found.Tasks[:min(len(found.Tasks), 3)] {
				view, answer, err := Ask(observed, task.GPUTask, analysis.Named{})
				if err != nil {
					continue
				}
				checkAnswer(t, view, answer)
			}
		})
	})
}

// observation is of a cluster with two nodes of two GPUs each.
func observation() *cluster.Observation {
	observed := &cluster.Observation{Queues: &cluster.QueueList{}, Objects: clusterview.Objects{Levels: snapshot.DefaultLevels(), Now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}}
	for _, name := range []string{"node-1", "node-2"} {
		amounts := corev1.ResourceList{
			v1.ResourceGPU: resource.MustParse("2"), corev1.ResourceCPU: resource.MustParse("8"),
			corev1.ResourceMemory: resource.MustParse("64Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}
		observed.Nodes = append(observed.Nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelLeaf: "leaf-1", v1.LabelGPUModel: "h100"}},
			Status:     corev1.NodeStatus{Allocatable: amounts, Capacity: amounts, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		})
	}
	return observed
}

func checkAnswer(t *testing.T, view *analysis.View, answer *analysis.WhatIf) {
	t.Helper()
	if answer.Outlook == nil || answer.Verdict == "" {
		t.Fatalf("the answer is %+v", answer)
	}
	if answer.Verdict != analysis.Now {
		return
	}
	if len(answer.Places) == 0 {
		t.Errorf("task %s fits, and has no place", answer.Name)
	}
	held := map[string]int64{}
	for _, pod := range view.Pods {
		requests := snapshot.Requests(pod)
		whole := requests[v1.ResourceGPU]
		held[pod.Spec.NodeName] += whole.Value()
	}
	for node, gpus := range held {
		if gpus > 2 {
			t.Errorf("%d GPUs of node %s are given away, it has 2", gpus, node)
		}
	}
}
