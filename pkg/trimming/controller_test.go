// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package trimming

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/randfill"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

func filled[T any](seed int64) *T {
	object := new(T)
	randfill.NewWithSeed(seed).NilChance(0.1).NumElements(1, 2).MaxDepth(12).Fill(object)
	return object
}

func trim(t *testing.T, trimmer *Trimmer, object any) {
	t.Helper()
	if _, err := trimmer.Transform(object); err != nil {
		t.Fatal(err)
	}
}

// TestWhatDecisionsReadOfAPodIsKept compares random Pods with what is left of them.
func TestWhatDecisionsReadOfAPodIsKept(t *testing.T) {
	t.Parallel()
	for seed := range int64(200) {
		whole := filled[corev1.Pod](seed)
		trimmed := whole.DeepCopy()
		trim(t, ForController(), trimmed)
		for name, read := range map[string]func(*corev1.Pod) any{
			"what the engine places": func(pod *corev1.Pod) any {
				shape, err := snapshot.Shape(pod)
				return []any{shape, err == nil}
			},
			"the gang": func(pod *corev1.Pod) any {
				gang, err := snapshot.Gang(pod)
				return []any{gang, err == nil}
			},
			"what it requests": func(pod *corev1.Pod) any {
				return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
			},
			"the rest of the spec": func(pod *corev1.Pod) any {
				s := &pod.Spec
				return []any{
					s.NodeName, s.NodeSelector, s.Affinity, s.Tolerations, s.TopologySpreadConstraints, s.ResourceClaims, s.SchedulingGates,
					s.SchedulingGroup, s.Priority, s.PriorityClassName, s.PreemptionPolicy, s.Overhead, s.SchedulerName, s.Hostname, s.Subdomain,
					s.TerminationGracePeriodSeconds, s.RestartPolicy, s.HostNetwork, s.Resources,
				}
			},
			"the ports": func(pod *corev1.Pod) any {
				var ports []any
				for i := range pod.Spec.Containers {
					ports = append(ports, pod.Spec.Containers[i].Ports)
				}
				return ports
			},
			"how its containers fare": func(pod *corev1.Pod) any {
				var states []any
				for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
					for i := range list {
						states = append(states, list[i].Name, list[i].State, list[i].LastTerminationState, list[i].RestartCount, list[i].Ready, list[i].Started)
					}
				}
				return states
			},
			"the rest of its status": func(pod *corev1.Pod) any {
				s := &pod.Status
				conditions := slices.DeleteFunc(slices.Clone(s.Conditions), isStep)
				return []any{s.Phase, s.Reason, s.Message, conditions, s.StartTime, s.NominatedNodeName, s.ExtendedResourceClaimStatus}
			},
			"labels and owner": func(pod *corev1.Pod) any {
				return []any{pod.Labels, pod.OwnerReferences, pod.Finalizers, pod.UID, pod.ResourceVersion, pod.DeletionTimestamp}
			},
		} {
			if want, got := read(whole), read(trimmed); !reflect.DeepEqual(want, got) {
				t.Errorf("seed %d: %s differs (-whole +trimmed):\n%s", seed, name, cmp.Diff(want, got))
			}
		}
	}
}

func TestWhatOnlyTheKubeletReadsOfAPodIsDropped(t *testing.T) {
	t.Parallel()
	pod := filled[corev1.Pod](1)
	trim(t, ForController(), pod)
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Env != nil || c.Command != nil || c.Args != nil || c.VolumeMounts != nil || c.LivenessProbe != nil {
			t.Errorf("container %d: %+v", i, c)
		}
	}
	if pod.ManagedFields != nil || pod.Spec.Volumes != nil || pod.Status.PodIPs != nil {
		t.Errorf("%+v", pod)
	}
}

func TestWhatDecisionsReadOfANodeIsKept(t *testing.T) {
	t.Parallel()
	for seed := range int64(50) {
		whole := filled[corev1.Node](seed)
		trimmed := whole.DeepCopy()
		trim(t, ForController(), trimmed)
		read := func(node *corev1.Node) any {
			return []any{node.Labels, node.Annotations, node.Spec, node.Status.Allocatable, node.Status.Capacity, node.Status.Conditions, node.Status.NodeInfo}
		}
		if want, got := read(whole), read(trimmed); !reflect.DeepEqual(want, got) {
			t.Errorf("seed %d: (-whole +trimmed):\n%s", seed, cmp.Diff(want, got))
		}
		if trimmed.Status.Images != nil || trimmed.ManagedFields != nil {
			t.Errorf("seed %d: images or managed fields are kept", seed)
		}
	}
}

func TestATaskIsKeptWhole(t *testing.T) {
	t.Parallel()
	trimmer := ForController()
	for seed := range int64(50) {
		task := filled[v1.GPUTask](seed)
		task.ManagedFields = nil
		want := task.DeepCopy()
		if _, err := trimmer.Transform(task); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(want, task) {
			t.Errorf("seed %d: (-before +after):\n%s", seed, cmp.Diff(want, task))
		}
	}
}

func requesting(list corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}}}
}

func TestEqualRequestsAreSharedInTheController(t *testing.T) {
	t.Parallel()
	trimmer := ForController()
	trimmed := func(cpu string) corev1.ResourceList {
		pod := requesting(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")})
		if _, err := trimmer.Transform(pod); err != nil {
			t.Fatal(err)
		}
		return pod.Spec.Containers[0].Resources.Requests
	}
	same := func(a, b corev1.ResourceList) bool {
		return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	}
	first := trimmed("1")
	if !same(first, trimmed("1")) || same(first, trimmed("2")) {
		t.Error("equal lists are not one, or others are")
	}
}

// Whoever can create Pods can request as many resources as an object can hold.
func TestNothingStaysOfPodsThatRequestManyResources(t *testing.T) { //nolint:paralleltest // it measures the memory
	trimmer := ForController()
	before := usedMiB()
	for i := range 4096 {
		list := corev1.ResourceList{}
		for j := range 200 {
			list[corev1.ResourceName(fmt.Sprintf("example.com/none-%d-%d", i, j))] = resource.MustParse("1")
		}
		if _, err := trimmer.Transform(requesting(list)); err != nil {
			t.Fatal(err)
		}
	}
	after := usedMiB()
	t.Logf("memory: %.1f MiB before, %.1f MiB after", before, after)
	if after > before+16 {
		t.Errorf("%.1f MiB are in use, %.1f MiB were before", after, before)
	}
	runtime.KeepAlive(trimmer)
}

// usedMiB returns how much memory is in use.
func usedMiB() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / (1 << 20)
}
