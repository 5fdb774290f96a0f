// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// newTask returns a pending task whose Pods ask for one GPU each and have no node.
func newTask(t *testing.T, name string, replicas, minAvailable int32) Task {
	t.Helper()
	task := Task{GPUTask: &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("task-" + name), CreationTimestamp: metav1.NewTime(now)},
		Spec:       v1.GPUTaskSpec{GPU: "h100", GPUAmount: "1", Replicas: &replicas, MinAvailable: &minAvailable},
		Status:     v1.GPUTaskStatus{Phase: v1.PhasePending},
	}}
	for i := range int(replicas) {
		pod, err := gputask.NewPod(task.GPUTask, i, 0, gputask.PodDefaults{})
		if err != nil {
			t.Fatal(err)
		}
		pod.UID, pod.CreationTimestamp = types.UID(pod.Name), metav1.NewTime(now)
		task.Pods = append(task.Pods, pod)
	}
	return task
}

// bind lets Pods run on a node.
func bind(node string, pods ...*corev1.Pod) {
	for _, pod := range pods {
		pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	}
}

// newNode returns a node with GPUs whose kubelet reports a readiness; "" for none.
func newNode(gpus int64, ready corev1.ConditionStatus) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{v1.LabelGPUModel: "h100"}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			v1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI), corev1.ResourcePods: resource.MustParse("110"),
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		}},
	}
	if ready != "" {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	}
	return node
}

func viewOf(nodes []*corev1.Node, pods []*corev1.Pod, tasks ...Task) *View {
	return New(&Objects{Tasks: tasks, Nodes: nodes, Pods: pods, Levels: snapshot.DefaultLevels(), Now: now})
}

// builder is newTask within a test.
type builder func(name string, replicas, minAvailable int32) Task

func TestUnits(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		tasks func(newTask builder) []Task
		pods  []*corev1.Pod
		want  []string
	}{
		"a task of one Pod is a unit": {
			tasks: func(newTask builder) []Task { return []Task{newTask("a", 1, 1)} },
			want:  []string{"a"},
		},
		"a gang is one unit": {
			tasks: func(newTask builder) []Task { return []Task{newTask("a", 2, 2), newTask("b", 1, 1)} },
			want:  []string{"a-0 a-1", "b"},
		},
		"a gang stays together if somebody changes the labels of a Pod": {
			tasks: func(newTask builder) []Task {
				task := newTask("a", 2, 2)
				delete(task.Pods[1].Labels, v1.LabelPodGroup)
				return []Task{task}
			},
			want: []string{"a-0 a-1"},
		},
		"several tasks may make one gang": {
			tasks: func(newTask builder) []Task {
				tasks := []Task{newTask("a", 1, 1), newTask("b", 1, 1)}
				for i := range tasks {
					tasks[i].Pods[0].Labels[v1.LabelPodGroup], tasks[i].Pods[0].Labels[v1.LabelMinAvailable] = "both", "2"
				}
				return tasks
			},
			want: []string{"a b"},
		},
		"a Pod that has ended is in none": {
			tasks: func(newTask builder) []Task {
				task := newTask("a", 2, 2)
				task.Pods[0].Status.Phase = corev1.PodSucceeded
				return []Task{task}
			},
			want: []string{"a-1"},
		},
		"a Pod of another owner is alone": {
			tasks: func(builder) []Task { return nil },
			pods:  []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}, Spec: corev1.PodSpec{NodeName: "node"}}},
			want:  []string{"other"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			build := func(name string, replicas, minAvailable int32) Task { return newTask(t, name, replicas, minAvailable) }
			var got []string
			for _, unit := range viewOf(nil, test.pods, test.tasks(build)...).Units {
				var names []string
				for _, m := range unit.Members {
					names = append(names, m.Pod.Name)
				}
				got = append(got, strings.Join(names, " "))
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("units (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSpareMembersAreThoseAboveTheMinimum(t *testing.T) {
	t.Parallel()
	task := newTask(t, "gang", 4, 2)
	bind("node", task.Pods[:3]...)
	view := viewOf([]*corev1.Node{newNode(8, corev1.ConditionTrue)}, task.Pods[:3], task)
	gang := view.GangOf("gang-0")
	if got := view.Spare(gang); got != 1 {
		t.Errorf("of 3 Pods with a node, of which 2 have to stay, %d are spare, want 1", got)
	}
	task.Pods[0].DeletionTimestamp = &metav1.Time{Time: now}
	if got := viewOf(view.Nodes, task.Pods[:3], task).Spare(gang); got != 0 {
		t.Errorf("when one of them is leaving, %d are spare, want 0", got)
	}
	if got := view.Spare("default/unknown"); got != 0 {
		t.Errorf("%d Pods of an unknown gang are spare", got)
	}
}

func TestOnlyAReadyNodeTakesPods(t *testing.T) {
	t.Parallel()
	for ready, want := range map[corev1.ConditionStatus]bool{corev1.ConditionTrue: true, corev1.ConditionFalse: false, corev1.ConditionUnknown: false, "": false} {
		view := viewOf([]*corev1.Node{newNode(2, ready)}, nil, newTask(t, "gang", 2, 2))
		waiting := view.Waiting()
		if len(waiting) != 1 || waiting[0].Err != nil {
			t.Fatalf("waiting: %+v", waiting)
		}
		_, fits, err := view.Cluster.Plan(&waiting[0].Gang.Gang)
		if err != nil || fits != want {
			t.Errorf("readiness %q: fits %t, error %v", ready, fits, err)
		}
	}
}

func TestWaitingForFindsTheTaskOfThatUID(t *testing.T) {
	t.Parallel()
	view := viewOf(nil, nil, newTask(t, "a", 1, 1))
	for uid, want := range map[types.UID]bool{"task-a": true, "": true, "of an earlier task": false} {
		ref := &v1.TaskReference{Namespace: "default", Name: "a", UID: uid}
		if got := view.WaitingFor(ref) != nil; got != want {
			t.Errorf("UID %q: found %t, want %t", uid, got, want)
		}
	}
}

func TestABoundPodStaysBoundWhateverTheOtherCacheShows(t *testing.T) {
	t.Parallel()
	task := newTask(t, "a", 1, 1)
	newer := task.Pods[0].DeepCopy()
	bind("node", newer)
	view := viewOf([]*corev1.Node{newNode(2, corev1.ConditionTrue)}, []*corev1.Pod{newer}, task)
	if waiting := view.Waiting(); len(waiting) > 0 {
		t.Errorf("it waits: %+v", waiting)
	}
	if placed := slices.Collect(view.Placed()); len(placed) != 1 || placed[0] != newer {
		t.Errorf("placed: %s", fmt.Sprint(placed))
	}
}

func TestAWaitingTaskNeedsTheResourcesThatItsPodsRequest(t *testing.T) {
	t.Parallel()
	const adapters = corev1.ResourceName("rdma/hca")
	tests := map[string]struct {
		node string // how many the node has
		held string // how many a Pod of another owner holds
		want bool
	}{
		"enough are free":             {"4", "2", true},
		"too few are free":            {"4", "3", false},
		"the node never has so many":  {"1", "0", false},
		"no node lists such adapters": {"", "2", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node, task := newNode(4, corev1.ConditionTrue), newTask(t, "a", 2, 2)
			if test.node != "" {
				node.Status.Allocatable[adapters] = resource.MustParse(test.node)
			}
			for _, pod := range task.Pods {
				pod.Spec.Containers[0].Resources.Requests[adapters] = resource.MustParse("1")
			}
			other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}, Spec: corev1.PodSpec{NodeName: "node"}}
			other.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{adapters: resource.MustParse(test.held)}}}}
			view := viewOf([]*corev1.Node{node}, []*corev1.Pod{other}, task)
			waiting := view.WaitingFor(&v1.TaskReference{Namespace: "default", Name: "a"})
			if waiting == nil || waiting.Err != nil {
				t.Fatalf("waiting: %+v", waiting)
			}
			if _, fits, err := view.Cluster.Plan(&waiting.Gang.Gang); err != nil || fits != test.want {
				t.Errorf("it fits: %t, error %v, want %t", fits, err, test.want)
			}
		})
	}
}
