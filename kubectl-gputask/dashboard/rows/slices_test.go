// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// slicedCluster has a node with a divided GPU, a whole one and a broken one that is divided, and
// tasks with slices: of "known" its annotation says which, of "guessed" nothing does.
func slicedCluster(t *testing.T) *clusterview.Objects {
	t.Helper()
	listed := inventory.Inventory{GPUs: []inventory.GPU{
		{UUID: "GPU-a", Model: "h100", MemoryMiB: 81559, Health: inventory.Healthy, MIG: true, Slices: []inventory.Slice{
			{UUID: "MIG-0", Profile: "3g.40gb", MemoryMiB: 40448}, {UUID: "MIG-1", Profile: "1g.10gb", MemoryMiB: 9728}, {UUID: "MIG-2", Profile: "1g.10gb", MemoryMiB: 9728},
		}},
		{Index: 1, UUID: "GPU-b", Model: "h100", MemoryMiB: 81559, Health: inventory.Healthy},
		{Index: 2, UUID: "GPU-c", Model: "h100", Health: inventory.Unhealthy, MIG: true, Slices: []inventory.Slice{{UUID: "MIG-3", Profile: "1g.10gb"}}},
	}}
	text, err := listed.String()
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{inventory.Annotation: text}, Labels: map[string]string{v1.LabelGPUModel: "h100"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.Allocatable = corev1.ResourceList{
		v1.ResourceGPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("512Gi"), "falldio.com/mig-1g.10gb": resource.MustParse("2"), "falldio.com/mig-3g.40gb": resource.MustParse("1"),
	}
	objects := &clusterview.Objects{Levels: snapshot.DefaultLevels(), Now: start, Nodes: []*corev1.Node{node}}
	known := inventory.Assignment{}
	known.Add(v1.ContainerName, "falldio.com/mig-1g.10gb", "MIG-2")
	knownText, err := known.String()
	if err != nil {
		t.Fatal(err)
	}
	for name, assignment := range map[string]string{"known": knownText, "guessed": ""} {
		task := &v1.GPUTask{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), CreationTimestamp: at(0)},
			Spec:       v1.GPUTaskSpec{GPUAmount: "1", GPUProfile: "1g.10gb"}, Status: v1.GPUTaskStatus{Phase: v1.PhaseRunning},
		}
		pod, err := gputask.NewPod(task, 0, 0, gputask.PodDefaults{})
		if err != nil {
			t.Fatal(err)
		}
		pod.UID, pod.CreationTimestamp, pod.Status.Phase, pod.Spec.NodeName = types.UID("pod-"+name), at(0), corev1.PodRunning, "n"
		pod.Annotations = map[string]string{inventory.AssignmentAnnotation: assignment}
		objects.Pods = append(objects.Pods, pod)
		objects.Tasks = append(objects.Tasks, clusterview.Task{GPUTask: task, Pods: []*corev1.Pod{pod}})
	}
	return objects
}

func TestADividedGPUIsACellOfItsSlices(t *testing.T) {
	t.Parallel()
	set, moment := Build(&Input{View: analysis.NewView(slicedCluster(t), nil)})
	row := set[Nodes]["n"].(*Node)
	var holders []string
	for _, holder := range row.Holders {
		holders = append(holders, holder.Pod)
	}
	if diff := cmp.Diff([]string{"guessed", "known"}, holders); diff != "" {
		t.Fatalf("holders (-want +got):\n%s", diff)
	}
	want := []Cell{
		{Use: analysis.CardDivided, Percent: 28, Holders: []int{0, 1}, Slices: []Slice{
			{Slice: analysis.Slice{Profile: "3g.40gb", Use: analysis.CardFree}, Compute: 3},
			{Slice: analysis.Slice{Profile: "1g.10gb", Use: analysis.CardBusy}, Compute: 1, Holder: 1},
			{Slice: analysis.Slice{Profile: "1g.10gb", Use: analysis.CardBusy}, Compute: 1, Holder: 2},
		}},
		{Use: analysis.CardFree},
		{Use: analysis.CardUnhealthy, Why: "unhealthy", Slices: []Slice{{Slice: analysis.Slice{Profile: "1g.10gb", Use: analysis.CardUnhealthy}, Compute: 1}}},
	}
	if diff := cmp.Diff(want, row.GPUs); diff != "" {
		t.Errorf("GPUs (-want +got):\n%s", diff)
	}
	if total := set[Summaries][""].(*Summary).Total; total.GPUs != 3 || total.Divided != 1 || total.Free != 1 || total.Unhealthy != 1 || total.Slices != 3 || total.FreeSlices != 1 {
		t.Errorf("in all %+v", total)
	}
	if sample := moment.Sample; sample.Allocated != 0.28 || sample.Total != 3 {
		t.Errorf("the sample is %+v", sample)
	}
	if task := set[Tasks]["default/known"].(*Task); task.Profile != "1g.10gb" || task.Asks != "1 MIG slice of profile 1g.10gb" {
		t.Errorf("the task is %+v", task)
	}
}

func TestADividedGPUInDetail(t *testing.T) {
	t.Parallel()
	view := analysis.NewView(slicedCluster(t), nil)
	row := GPURow(view, "n", 0)
	want := []GPUSlice{
		{Slice: analysis.Slice{Profile: "3g.40gb", Use: analysis.CardFree}, UUID: "MIG-0", Memory: "39 GiB"},
		{Slice: analysis.Slice{Profile: "1g.10gb", Use: analysis.CardBusy}, UUID: "MIG-1", Memory: "9 GiB", Pod: "default/guessed"},
		{Slice: analysis.Slice{Profile: "1g.10gb", Use: analysis.CardBusy}, UUID: "MIG-2", Memory: "9 GiB", Pod: "default/known"},
	}
	if diff := cmp.Diff(want, row.Slices); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	if len(row.Holders) != 2 || row.Holders[1].Slices != "1 MIG slice of profile 1g.10gb" || row.UUID != "GPU-a" {
		t.Errorf("holders %+v of GPU %s", row.Holders, row.UUID)
	}
	if whole := GPURow(view, "n", 1); whole.UUID != "GPU-b" || len(whole.Slices) > 0 || len(whole.Holders) > 0 || whole.Use != analysis.CardFree {
		t.Errorf("the whole GPU is %+v", whole)
	}
}
