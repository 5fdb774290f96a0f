// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/live"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const gpusPerNode = 8

// largeCluster returns nodes of 8 GPUs, on which tasks of one GPU run one after the other.
func largeCluster(tb testing.TB, nodes, tasks int) *clusterview.Objects {
	tb.Helper()
	objects := &clusterview.Objects{Levels: snapshot.DefaultLevels(), Now: start}
	for i := range nodes {
		objects.Nodes = append(objects.Nodes, largeNode(tb, i))
	}
	for i := range tasks {
		task := &v1.GPUTask{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("task-%d", i), Namespace: "default", UID: types.UID(fmt.Sprintf("task-%d", i)), CreationTimestamp: at(i)},
			Spec:       v1.GPUTaskSpec{GPU: "h100", GPUAmount: "1"}, Status: v1.GPUTaskStatus{Phase: v1.PhaseRunning},
		}
		pod, err := gputask.NewPod(task, 0, 0, gputask.PodDefaults{})
		if err != nil {
			tb.Fatal(err)
		}
		pod.UID, pod.CreationTimestamp, pod.Status.Phase = types.UID(fmt.Sprintf("pod-%d", i)), at(i), corev1.PodRunning
		pod.Spec.NodeName = fmt.Sprintf("node-%d", i/gpusPerNode)
		assignment := inventory.Assignment{}
		assignment.Add(v1.ContainerName, string(v1.ResourceGPU), fmt.Sprintf("GPU-%d-%d", i/gpusPerNode, i%gpusPerNode))
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		if pod.Annotations[inventory.AssignmentAnnotation], err = assignment.String(); err != nil {
			tb.Fatal(err)
		}
		objects.Pods = append(objects.Pods, pod)
		objects.Tasks = append(objects.Tasks, clusterview.Task{GPUTask: task, Pods: []*corev1.Pod{pod}})
	}
	return objects
}

func largeNode(tb testing.TB, number int) *corev1.Node {
	tb.Helper()
	listed := inventory.Inventory{}
	for gpu := range gpusPerNode {
		listed.GPUs = append(listed.GPUs, inventory.GPU{Index: gpu, UUID: fmt.Sprintf("GPU-%d-%d", number, gpu), Model: "h100", MemoryMiB: 81559, Health: inventory.Healthy})
	}
	text, err := listed.String()
	if err != nil {
		tb.Fatal(err)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("node-%d", number), Annotations: map[string]string{inventory.Annotation: text},
			Labels: map[string]string{v1.LabelGPUModel: "h100", v1.LabelLeaf: fmt.Sprintf("leaf-%d", number/32)},
		},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				v1.ResourceGPU: *resource.NewQuantity(gpusPerNode, resource.DecimalSI), corev1.ResourcePods: resource.MustParse("110"),
				corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func TestEveryGPUOfALargeClusterIsInTheRows(t *testing.T) {
	t.Parallel()
	set, moment := Build(&Input{View: analysis.NewView(largeCluster(t, 40, 100), nil)})
	busy, free, sample := 0, 0, moment.Sample
	for _, row := range set[Nodes] {
		for _, cell := range row.(*Node).GPUs {
			switch {
			case cell.Use == analysis.CardBusy && len(cell.Holders) == 1:
				busy++
			case cell.Use == analysis.CardFree && len(cell.Holders) == 0:
				free++
			}
		}
	}
	if busy != 100 || free != 40*gpusPerNode-100 || sample.Allocated != 100 || sample.Total != 320 {
		t.Errorf("%d GPUs are busy and %d free; the sample is %+v", busy, free, sample)
	}
	summary := set[Summaries][""].(*Summary)
	if summary.Total.Free != free || summary.Total.GPUs != 320 || summary.RunningTasks != 100 || len(set[Tasks]) != 100 {
		t.Errorf("the summary is %+v", summary)
	}
}

// BenchmarkBuild is one look at a cluster: the view, the rows, and what has changed in them.
func BenchmarkBuild(b *testing.B) {
	for _, size := range []struct{ nodes, tasks int }{{100, 400}, {1000, 2000}, {10_000, 20_000}} {
		b.Run(fmt.Sprintf("%d nodes %d tasks", size.nodes, size.tasks), func(b *testing.B) {
			objects, document := largeCluster(b, size.nodes, size.tasks), live.NewDocument()
			for b.Loop() {
				set, _ := Build(&Input{View: analysis.NewView(objects, nil)})
				if err := document.Replace(live.Rows(set)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
