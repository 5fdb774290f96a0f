// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

func TestQueuesAreTranslated(t *testing.T) {
	t.Parallel()
	queue := newQueue("vision", "org", quota("h100", 2, 4), quota("*", 8))
	queue.Spec = v1.GPUQueueSpec{
		Parent: "org", Resources: queue.Spec.Resources, Weight: ptr.To[int32](3),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "vision"}},
		MaxRuntimeSeconds: ptr.To[int64](3600), DefaultRuntimeSeconds: ptr.To[int64](60), Priorities: []string{"low"},
		Reclaim: &v1.GPUQueueReclaim{MinRuntimeSeconds: ptr.To[int32](5)},
	}
	want := queueing.Queue{
		Name: "vision", Parent: "org", Weight: 3, Selector: "team=vision", Priorities: []string{"low"},
		Quotas:     map[string]queueing.Quota{"h100": {Guaranteed: 200, Limit: 400}, "*": {Guaranteed: 800, Limit: queueing.Unlimited}},
		MaxRuntime: time.Hour, DefaultRuntime: time.Minute,
		Reclaim: &queueing.Reclaim{Policy: queueing.ReclaimAny, MinRuntime: 5 * time.Second, Notice: time.Minute},
	}
	got := Of(queue)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(queueing.Queue{}, "Accepts")); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
	if !got.Accepts(map[string]string{"team": "vision"}) || got.Accepts(map[string]string{"team": "web"}) || got.Accepts(nil) {
		t.Error("the queue does not accept exactly what its selector selects")
	}
	if bare := Of(&v1.GPUQueue{}); bare.Accepts != nil || bare.Weight != 1 || bare.Reclaim != nil || len(bare.Quotas) != 0 {
		t.Errorf("a queue without a spec: %+v", bare)
	}
}

func TestAnInvalidSelectorAcceptsNoneAndIsAProblem(t *testing.T) {
	t.Parallel()
	queue := newQueue("vision", "")
	queue.Spec = spec(func(s *v1.GPUQueueSpec) {
		s.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Near"}}
	})
	if Of(queue).Accepts(map[string]string{"team": "vision"}) {
		t.Error("it accepts a namespace")
	}
	problem := Problem(queue, NewTree([]*v1.GPUQueue{queue}))
	if problem == nil || problem.Reason != v1.ReasonInvalidSelector || !strings.Contains(problem.Message, `"Near" is not a valid`) {
		t.Errorf("problem: %v", problem)
	}
}

func TestAmountsOfPods(t *testing.T) {
	t.Parallel()
	requests := func(list corev1.ResourceList) *corev1.Pod {
		return newPod("a", "q", 0, func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources.Requests = list })
	}
	one := func(name corev1.ResourceName, count string) corev1.ResourceList {
		return corev1.ResourceList{name: resource.MustParse(count)}
	}
	tests := map[string]struct {
		pod  *corev1.Pod
		want queueing.Amount
	}{
		"whole GPUs":                    {newPod("a", "q", 3), 300},
		"NVIDIA's":                      {requests(one(v1.ResourceNVIDIAGPU, "2")), 200},
		"a share of one":                {requests(one(v1.ResourceGPUPercent, "46")), 46},
		"a MIG slice, rounded down":     {requests(one("falldio.com/mig-2g.20gb", "1")), 28},
		"all of a GPU in slices":        {requests(one("falldio.com/mig-1g.10gb", "7")), 100},
		"NVIDIA's slices":               {requests(one("nvidia.com/mig-3g.40gb", "1")), 42},
		"none":                          {requests(one(corev1.ResourceCPU, "4")), 0},
		"more than any node has":        {newPod("a", "q", 1_000_000_000_000), placement.MaxCards * queueing.GPU},
		"an init container before them": {newPod("a", "q", 1, func(pod *corev1.Pod) { pod.Spec.InitContainers = newPod("b", "q", 2).Spec.Containers }), 200},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Amount(tc.pod); got != tc.want {
				t.Errorf("%s GPUs, want %s", got, tc.want)
			}
		})
	}
}

func TestTheQueueOfAPodIsDecidedByItselfAndItsNamespace(t *testing.T) {
	t.Parallel()
	pod := newPod("a", "vision", 1, func(pod *corev1.Pod) {
		pod.Spec.PriorityClassName, pod.Annotations = "low", map[string]string{v1.AnnotationMaxRuntime: "3600"}
		pod.Spec.ActiveDeadlineSeconds = new(int64(3600))
	})
	labels := map[string]string{v1.LabelQueue: "other", "team": "vision"}
	want := queueing.Applicant{Namespace: "default", Queue: "vision", NamespaceQueue: "other", NamespaceLabels: labels, PriorityClass: "low", MaxRuntime: time.Hour}
	if diff := cmp.Diff(want, Applicant(pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: labels}})); diff != "" {
		t.Errorf("applicant (-want +got):\n%s", diff)
	}
	pod.Annotations[v1.AnnotationMaxRuntime] = "for ever"
	if got := Applicant(pod, nil); got.MaxRuntime != 0 || got.NamespaceQueue != "" {
		t.Errorf("without a namespace: %+v", got)
	}
}

// Who declares a short run time is served earlier, so it is believed only where it is enforced.
func TestARunTimeIsBelievedIfThePodIsStoppedThen(t *testing.T) {
	t.Parallel()
	controlledBy := func(apiVersion, kind string, controls bool) podChange {
		return func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "x", UID: "x", Controller: &controls}}
		}
	}
	deadline := func(seconds int64) podChange {
		return func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = &seconds }
	}
	for name, tc := range map[string]struct {
		change podChange
		want   time.Duration
	}{
		"nobody stops it":                           {func(*corev1.Pod) {}, 0},
		"the kubelet stops it then":                 {deadline(60), time.Minute},
		"the kubelet stops it before":               {deadline(1), time.Minute},
		"the kubelet stops it later":                {deadline(61), 0},
		"gpu-controller stops it":                   {controlledBy("falldio.com/v1", "GPUTask", true), time.Minute},
		"a task that does not control it":           {controlledBy("falldio.com/v1", "GPUTask", false), 0},
		"a Job, whose controller does not look":     {controlledBy("batch/v1", "Job", true), 0},
		"another kind of the same name controls it": {controlledBy("example.com/v1", "GPUTask", true), 0},
	} {
		pod := newPod("a", "vision", 1, tc.change)
		pod.Annotations = map[string]string{v1.AnnotationMaxRuntime: "60"}
		if got := MaxRuntime(pod); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
