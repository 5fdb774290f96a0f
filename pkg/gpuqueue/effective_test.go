// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// gpuNode returns a Node of which the kubelet says that it has GPUs of a model.
func gpuNode(model, gpus string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelGPUModel: model}},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{v1.ResourceGPU: resource.MustParse(gpus)}},
	}
}

func TestAQueueSaysWhatTheClusterDoesNotHave(t *testing.T) {
	t.Parallel()
	// 42 GPUs, 16 of them of the model that has a longer name than people think.
	nodes := []*corev1.Node{gpuNode("h100-80gb-hbm3", "8"), gpuNode("h100-80gb-hbm3", "8"), gpuNode("a100-40gb", "8"), gpuNode("rtx4090", "18"), {}}
	const h100 = "h100-80gb-hbm3"
	type want struct{ reason, message string }
	for name, test := range map[string]struct {
		queues []*v1.GPUQueue
		pods   []*corev1.Pod
		want   map[string]want // False, by queue; all others are True
	}{
		"all is there": {
			queues: []*v1.GPUQueue{newQueue("org", "", quota("*", 42, 42), quota(h100, 16)), newQueue("team", "org", quota("*", 42), quota(h100, 16, 20))},
			pods:   []*corev1.Pod{newPod("p", "team", 42)},
		},
		"a model with a part of its name": {
			queues: []*v1.GPUQueue{newQueue("q", "", quota("h100", 1))},
			want:   map[string]want{"q": {v1.ReasonUnknownModel, "no node has h100 (did you mean h100-80gb-hbm3?)"}},
		},
		"a model that is like no other one": {
			queues: []*v1.GPUQueue{newQueue("q", "", quota("hopper", 0, 4), quota("a100-40gb", 1))},
			want:   map[string]want{"q": {v1.ReasonUnknownModel, "no node has hopper (they have a100-40gb, h100-80gb-hbm3, rtx4090)"}},
		},
		"more than the cluster": {
			queues: []*v1.GPUQueue{newQueue("q", "", quota("*", 4000))},
			want:   map[string]want{"q": {v1.ReasonGuaranteeExceedsCluster, "4000 GPUs guaranteed, but the cluster has 42"}},
		},
		"more of a model": {
			queues: []*v1.GPUQueue{newQueue("q", "", quota("*", 20), quota(h100, 17))},
			want:   map[string]want{"q": {v1.ReasonGuaranteeExceedsCluster, "17 h100-80gb-hbm3 guaranteed, but the cluster has 16"}},
		},
		"more of an unknown model than of all together": {
			queues: []*v1.GPUQueue{newQueue("q", "", quota("h100", 50))},
			want: map[string]want{"q": {v1.ReasonUnknownModel,
				"no node has h100 (did you mean h100-80gb-hbm3?); 50 GPUs guaranteed, but the cluster has 42"}},
		},
		"what children are guaranteed is a part of their parent's": {
			queues: []*v1.GPUQueue{
				newQueue("org", "", quota("*", 40)), newQueue("a", "org", quota("*", 20)), newQueue("b", "org", quota("*", 20)), newQueue("other", ""),
			},
		},
		"roots that are guaranteed too much together": {
			queues: []*v1.GPUQueue{newQueue("x", "", quota(h100, 10)), newQueue("y", "", quota(h100, 7)), newQueue("part", "y", quota(h100, 7)), newQueue("z", "")},
			want: map[string]want{
				"x": {v1.ReasonGuaranteeExceedsCluster, "17 h100-80gb-hbm3 guaranteed to this queue and all others without a parent, but the cluster has 16"},
				"y": {v1.ReasonGuaranteeExceedsCluster, "17 h100-80gb-hbm3 guaranteed to this queue and all others without a parent, but the cluster has 16"},
			},
		},
		"a child without parent is guaranteed nothing": {
			queues: []*v1.GPUQueue{newQueue("q", "gone", quota("*", 4000))},
		},
		"a limit below a Pod that waits, also in a child": {
			queues: []*v1.GPUQueue{newQueue("org", "", quota("*", 0, 3)), newQueue("team", "org"), newQueue("other", "", quota("*", 0, 8))},
			pods: []*corev1.Pod{
				newPod("small", "team", 3), newPod("big", "team", 8), newPod("bigger", "team", 4), newPod("runs", "other", 16, runsSince(0)), newPod("fits", "other", 8),
			},
			want: map[string]want{"org": {v1.ReasonLimitBelowPod, "the limit of 3 GPUs is below the request of a single waiting Pod, which is 8: see kubectl gputask queue describe org"}},
		},
		"a limit of a model": {
			queues: []*v1.GPUQueue{newQueue("q", "", quota(h100, 0, 1))},
			pods:   []*corev1.Pod{newPod("any", "q", 2), newPod("wants", "q", 2, wantsModel(h100))},
			want:   map[string]want{"q": {v1.ReasonLimitBelowPod, "the limit of 1 h100-80gb-hbm3 is below the request of a single waiting Pod, which is 2: see kubectl gputask queue describe q"}},
		},
		"many problems": {
			queues: []*v1.GPUQueue{newQueue("q", "", quota("u1", 0), quota("u2", 0), quota("u3", 0), quota("u4", 0), quota("u5", 0))},
			want: map[string]want{"q": {v1.ReasonUnknownModel, "no node has u1 (they have a100-40gb, h100-80gb-hbm3, rtx4090); " +
				"no node has u2 (they have a100-40gb, h100-80gb-hbm3, rtx4090); no node has u3 (they have a100-40gb, h100-80gb-hbm3, rtx4090); " +
				"no node has u4 (they have a100-40gb, h100-80gb-hbm3, rtx4090); and 1 more"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := NewReport(viewOf(test.queues, test.pods...), Accounts{}, halfLife, now)
			report.Supply = NewSupply(nodes)
			for _, queue := range test.queues {
				status := report.Status(queue)
				got := meta.FindStatusCondition(status.Conditions, v1.ConditionQueueEffective)
				expected, problem := test.want[queue.Name]
				if !problem {
					expected = want{v1.ReasonQueueEffective, "all parts of the spec take effect"}
				}
				if got.Reason != expected.reason || got.Message != expected.message || (got.Status == metav1.ConditionFalse) != problem {
					t.Errorf("%s: %s %s %q, want %q", queue.Name, got.Status, got.Reason, got.Message, expected)
				}
			}
		})
	}
}

func TestWithoutNodesNothingIsSaidAboutThem(t *testing.T) {
	t.Parallel()
	queue := newQueue("q", "", quota("h100", 4000))
	status := NewReport(viewOf([]*v1.GPUQueue{queue}), Accounts{}, halfLife, now).Status(queue)
	if got := meta.FindStatusCondition(status.Conditions, v1.ConditionQueueEffective); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestTheSupplyCountsGPUsInWhateverForm(t *testing.T) {
	t.Parallel()
	listed := gpuNode("a100-80gb", "1") // one is divided, and one is broken
	text, err := inventory.Inventory{Version: "v1", GPUs: []inventory.GPU{
		{Index: 0, UUID: "GPU-0", Model: "a100-80gb", MemoryMiB: 80000, Health: inventory.Healthy, MIG: true},
		{Index: 1, UUID: "GPU-1", Model: "a100-80gb", MemoryMiB: 80000, Health: inventory.Unhealthy, Fault: &inventory.Fault{Reason: "XIDError", Since: now}},
		{Index: 2, UUID: "GPU-2", Model: "a100-80gb", MemoryMiB: 80000, Health: inventory.Healthy},
	}}.String()
	if err != nil {
		t.Fatal(err)
	}
	listed.Annotations = map[string]string{inventory.Annotation: text}
	foreign := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelNVIDIAProduct: "NVIDIA-L40S"}},
		Status: corev1.NodeStatus{
			Capacity: corev1.ResourceList{v1.ResourceNVIDIAGPU: resource.MustParse("4")}, Allocatable: corev1.ResourceList{v1.ResourceNVIDIAGPU: resource.MustParse("3")},
		},
	}
	if got := fmt.Sprint(NewSupply([]*corev1.Node{listed, foreign, gpuNode("h100", "0"), {}})); got != "map[*:7 a100-80gb:3 h100:0 l40s:4]" {
		t.Error(got)
	}
}

func TestAProblemIsNewOnce(t *testing.T) {
	t.Parallel()
	status := func(conditions ...metav1.Condition) *v1.GPUQueueStatus {
		return &v1.GPUQueueStatus{Conditions: conditions}
	}
	problem := func(reason string, generation int64, message string) metav1.Condition {
		return metav1.Condition{Type: "Effective", Status: metav1.ConditionFalse, Reason: reason, ObservedGeneration: generation, Message: message}
	}
	works := metav1.Condition{Type: "Effective", Status: metav1.ConditionTrue, Reason: "Effective"}
	for name, test := range map[string]struct {
		before, after *v1.GPUQueueStatus
		want          int
	}{
		"the first":                      {status(), status(problem("UnknownModel", 1, "")), 1},
		"after it worked":                {status(works), status(problem("UnknownModel", 1, "")), 1},
		"none":                           {status(problem("UnknownModel", 1, "")), status(works), 0},
		"the same":                       {status(problem("UnknownModel", 1, "")), status(problem("UnknownModel", 1, "")), 0},
		"the cluster grows, but too few": {status(problem("UnknownModel", 1, "10")), status(problem("UnknownModel", 1, "11")), 0},
		"another one":                    {status(problem("UnknownModel", 1, "")), status(problem("LimitBelowPod", 1, "")), 1},
		"another spec has it, too":       {status(problem("UnknownModel", 1, "")), status(problem("UnknownModel", 2, "")), 1},
		"one of another type":            {status(works), status(works, metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse}), 1},
	} {
		if got := NewProblems(test.before, test.after); len(got) != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
