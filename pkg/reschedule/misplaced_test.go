// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const patience = 5 * time.Minute

// task returns a task with a Pod on each of the nodes; "" is no node.
func task(name string, phase v1.GPUTaskPhase, age time.Duration, nodes ...string) clusterview.Task {
	t := clusterview.Task{GPUTask: &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", CreationTimestamp: metav1.NewTime(now.Add(-age))},
		Spec:       v1.GPUTaskSpec{GPU: "h100", GPUAmount: "4", Replicas: new(int32(len(nodes)))},
		Status:     v1.GPUTaskStatus{Phase: phase},
	}}
	for i, node := range nodes {
		pod, err := gputask.NewPod(t.GPUTask, i, 0, gputask.PodDefaults{})
		if err != nil {
			panic(err) // the task above is good
		}
		pod.UID = types.UID(fmt.Sprintf("%s-%d", name, i))
		pod.CreationTimestamp = t.CreationTimestamp
		pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodPending
		if node != "" {
			pod.Status.Phase = corev1.PodRunning
		}
		t.Pods = append(t.Pods, pod)
	}
	return t
}

func node(name string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelGPUModel: "h100"}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{v1.ResourceGPU: resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("2")},
		},
	}
	for _, apply := range change {
		apply(n)
	}
	return n
}

func withoutModel(n *corev1.Node) { delete(n.Labels, v1.LabelGPUModel) }
func cordoned(n *corev1.Node)     { n.Spec.Unschedulable = true }
func notReady(n *corev1.Node)     { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func otherModel(n *corev1.Node)   { n.Labels[v1.LabelGPUModel] = "a100" }
func tainted(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: "tenant", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
}

func with(task clusterview.Task, change func(*clusterview.Task)) clusterview.Task {
	change(&task)
	return task
}

func never(t *clusterview.Task) { t.Spec.Rescheduling = &v1.Rescheduling{Policy: v1.ReschedulingNever} }

func TestCandidates(t *testing.T) {
	t.Parallel()
	nodes := []*corev1.Node{node("good"), node("cordoned", cordoned), node("silent", notReady), node("changed", otherModel), node("unlabelled", withoutModel)}
	tests := map[string]struct {
		tasks []clusterview.Task
		// want are the tasks and the Pods to evict.
		want []string
	}{
		"a task that runs well stays":                         {[]clusterview.Task{task("a", v1.PhaseRunning, time.Hour, "good", "good")}, nil},
		"a new task may still find a node":                    {[]clusterview.Task{task("a", v1.PhasePending, patience, "")}, nil},
		"a task that waits for long is tried again":           {[]clusterview.Task{task("a", v1.PhasePending, patience+1, "")}, []string{"a: a"}},
		"a gang is tried again only if none of it has a node": {[]clusterview.Task{task("a", v1.PhasePending, time.Hour, "", "good")}, nil},
		"a gang without any node is tried again as a whole":   {[]clusterview.Task{task("a", v1.PhasePending, time.Hour, "", "")}, []string{"a: a-0 a-1"}},
		"a gang that lacks a Pod is being built":              {[]clusterview.Task{with(task("a", v1.PhasePending, time.Hour, "", ""), func(t *clusterview.Task) { t.Pods = t.Pods[:1] })}, nil},
		"a task on a cordoned node moves":                     {[]clusterview.Task{task("a", v1.PhaseRunning, time.Hour, "cordoned")}, []string{"a: a"}},
		"a task that never moves stays on a cordoned node":    {[]clusterview.Task{with(task("a", v1.PhaseRunning, time.Hour, "cordoned"), never)}, nil},
		"a node that is not ready is left to Kubernetes":      {[]clusterview.Task{task("a", v1.PhaseRunning, time.Hour, "silent")}, nil},
		"a Pod that must not be evicted stays on a cordon": {[]clusterview.Task{with(task("a", v1.PhaseRunning, time.Hour, "cordoned"), func(t *clusterview.Task) {
			metav1.SetMetaDataAnnotation(&t.Pods[0].ObjectMeta, annotationSafeToEvict, "false")
		})}, nil},
		"a Pod that Karpenter must not disrupt stays on a cordon": {[]clusterview.Task{with(task("a", v1.PhaseRunning, time.Hour, "cordoned"), func(t *clusterview.Task) {
			metav1.SetMetaDataAnnotation(&t.Pods[0].ObjectMeta, annotationDoNotDisrupt, "true")
		})}, nil},
		"a task that tolerates the cordon stays": {[]clusterview.Task{with(task("a", v1.PhaseRunning, time.Hour, "cordoned"), func(t *clusterview.Task) {
			t.Pods[0].Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
		})}, nil},
		"a running gang is not disturbed for a cordon":       {[]clusterview.Task{task("a", v1.PhaseRunning, time.Hour, "cordoned", "good")}, nil},
		"a gang that doesn't run moves off a cordon":         {[]clusterview.Task{task("a", v1.PhasePending, time.Hour, "cordoned", "")}, []string{"a: a-0"}},
		"a node whose label is away is not of another model": {[]clusterview.Task{task("a", v1.PhaseRunning, time.Hour, "unlabelled")}, nil},
		"a Pod that others are preempted for keeps its place": {
			[]clusterview.Task{with(task("a", v1.PhasePending, time.Hour, ""), func(t *clusterview.Task) { t.Pods[0].Status.NominatedNodeName = "good" })}, nil,
		},
		"a gated Pod does not wait for the scheduler": {
			[]clusterview.Task{with(task("a", v1.PhasePending, time.Hour, ""), func(t *clusterview.Task) { t.Pods[0].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}} })}, nil,
		},
		"a node of another model is left":                      {[]clusterview.Task{task("a", v1.PhaseRunning, time.Hour, "changed")}, []string{"a: a"}},
		"a task that never moves stays when a label changes":   {[]clusterview.Task{with(task("a", v1.PhaseRunning, time.Hour, "changed"), never)}, nil},
		"a running gang is not disturbed when a label changes": {[]clusterview.Task{task("a", v1.PhaseRunning, time.Hour, "changed", "good")}, nil},
		"any model is good for a task that names none": {
			[]clusterview.Task{with(task("a", v1.PhaseRunning, time.Hour, "changed"), func(t *clusterview.Task) { t.Pods[0].Spec.NodeSelector = nil })}, nil,
		},
		"a Pod that is going already is left alone": {
			[]clusterview.Task{with(task("a", v1.PhaseRunning, time.Hour, "changed"), func(t *clusterview.Task) { t.Pods[0].DeletionTimestamp = &metav1.Time{Time: now} })}, nil,
		},
		"a Pod that has ended is left alone": {
			[]clusterview.Task{with(task("a", v1.PhaseRunning, time.Hour, "changed"), func(t *clusterview.Task) { t.Pods[0].Status.Phase = corev1.PodSucceeded })}, nil,
		},
		"a node that is gone is the garbage collector's": {[]clusterview.Task{task("a", v1.PhaseRunning, time.Hour, "gone")}, nil},
		"a finished task stays":                          {[]clusterview.Task{task("a", v1.PhaseSucceeded, time.Hour, "changed")}, nil},
		"a task that is being suspended stays": {
			[]clusterview.Task{with(task("a", v1.PhaseRunning, time.Hour, "changed"), func(t *clusterview.Task) { t.Spec.Suspend = new(true) })}, nil,
		},
		"a task that is being deleted stays": {
			[]clusterview.Task{with(task("a", v1.PhaseRunning, time.Hour, "changed"), func(t *clusterview.Task) { t.DeletionTimestamp = &metav1.Time{Time: now} })}, nil,
		},
		"waiting tasks come first, the oldest before the others": {
			[]clusterview.Task{
				task("c", v1.PhaseRunning, 3*time.Hour, "cordoned"), task("b", v1.PhasePending, time.Hour, ""),
				task("a", v1.PhasePending, 2*time.Hour, ""), task("d", v1.PhaseRunning, 4*time.Hour, "changed"),
			},
			[]string{"a: a", "b: b", "d: d", "c: c"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, move := range Candidates(tc.tasks, nodes, patience, now) {
				names := []string{move.Task.Name + ":"}
				for _, pod := range move.Pods {
					names = append(names, pod.Name)
				}
				got = append(got, strings.Join(names, " "))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("moves (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHasRoom(t *testing.T) {
	t.Parallel()
	single := task("a", v1.PhaseRunning, time.Hour, "old")
	pair := task("a", v1.PhaseRunning, time.Hour, "old", "old")
	running := func(names ...string) []*corev1.Pod {
		return task("other", v1.PhaseRunning, time.Hour, names...).Pods
	}
	tests := map[string]struct {
		task    clusterview.Task
		nodes   []*corev1.Node
		running []*corev1.Pod
		want    bool
	}{
		"a free node has room":                       {single, []*corev1.Node{node("old"), node("b")}, nil, true},
		"the node that a Pod leaves doesn't count":   {single, []*corev1.Node{node("old")}, nil, false},
		"a full node has none":                       {single, []*corev1.Node{node("b")}, running("b", "b"), false},
		"half a node is enough for half a node":      {single, []*corev1.Node{node("b")}, running("b"), true},
		"a Pod that has ended holds nothing":         {single, []*corev1.Node{node("b")}, ended(running("b", "b")), true},
		"two Pods need the room of two":              {pair, []*corev1.Node{node("b")}, running("b"), false},
		"two Pods may go to two nodes":               {pair, []*corev1.Node{node("b"), node("c")}, running("b", "c"), true},
		"a cordoned node takes no Pods":              {single, []*corev1.Node{node("b", cordoned)}, nil, false},
		"a node that is not ready takes no Pods":     {single, []*corev1.Node{node("b", notReady)}, nil, false},
		"a node of another model takes no Pods":      {single, []*corev1.Node{node("b", otherModel)}, nil, false},
		"a taint that is not tolerated keeps it off": {single, []*corev1.Node{node("b", tainted)}, nil, false},
		"a node without the resource has no room": {single, []*corev1.Node{node("b", func(n *corev1.Node) {
			delete(n.Status.Allocatable, v1.ResourceGPU)
		})}, nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := HasRoom(tc.task.Pods, tc.nodes, tc.running); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func ended(pods []*corev1.Pod) []*corev1.Pod {
	for _, pod := range pods {
		pod.Status.Phase = corev1.PodFailed
	}
	return pods
}

func TestSettled(t *testing.T) {
	t.Parallel()
	before := task("a", v1.PhaseRunning, time.Hour, "old")
	moved := with(task("a", v1.PhaseRunning, time.Hour, "new"), func(t *clusterview.Task) { t.Pods[0].UID = "new" })
	tests := map[string]struct {
		task clusterview.Task
		want bool
	}{
		"the evicted Pod is still there":      {before, false},
		"the new Pod has no node":             {with(task("a", v1.PhasePending, time.Hour, ""), func(t *clusterview.Task) { t.Pods[0].UID = "new" }), false},
		"the new Pod has not started":         {with(moved, func(t *clusterview.Task) { t.GPUTask = t.DeepCopy(); t.Status.Phase = v1.PhasePending }), false},
		"the new Pod runs":                    {moved, true},
		"the task has succeeded meanwhile":    {task("a", v1.PhaseSucceeded, time.Hour), true},
		"the task is being deleted meanwhile": {with(before, func(t *clusterview.Task) { t.GPUTask = t.DeepCopy(); t.DeletionTimestamp = &metav1.Time{Time: now} }), true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Settled(tc.task, before.Pods); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
