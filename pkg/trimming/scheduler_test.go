// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package trimming

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/randfill"

	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

func TestWhatOnlyTheKubeletNeedsIsDropped(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
	pod.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "kept": "yes"}
	pod.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "image", Command: []string{"train"}, Args: []string{"--fast"}, Env: []corev1.EnvVar{{Name: "A", Value: "b"}},
		Ports:        []corev1.ContainerPort{{HostPort: 80}},
		VolumeMounts: []corev1.VolumeMount{{Name: "plain"}, {Name: "with-options", BindMountOptions: []string{"noexec"}}},
	}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "plain", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}},
		{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ContainerID: "containerd://1"}, {
		Name: "resized", ContainerID: "containerd://2", Resources: &corev1.ResourceRequirements{Requests: cpus("2")},
	}}
	trim(t, ForScheduler(), pod)

	want := &corev1.Pod{}
	want.Annotations = map[string]string{"kept": "yes"}
	want.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "image", Ports: []corev1.ContainerPort{{HostPort: 80}},
		VolumeMounts: []corev1.VolumeMount{{Name: "with-options", BindMountOptions: []string{"noexec"}}},
	}}
	want.Spec.Volumes = []corev1.Volume{
		{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
	}
	want.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "resized", Resources: &corev1.ResourceRequirements{Requests: cpus("2")}}}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Error(diff)
	}
}

func TestWhenAContainerWasRestartedIsKept(t *testing.T) {
	t.Parallel()
	begin := metav1.NewTime(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	again := metav1.NewTime(begin.Add(time.Hour))
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}, Status: corev1.PodStatus{
		StartTime: &begin, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: again}},
		}},
	}}
	trim(t, ForScheduler(), pod)
	if got := podfacts.Started(pod); !got.Equal(again.Time) {
		t.Errorf("its work began at %v, want %v", got, again)
	}
}

func TestAnAssignmentIsBelievedOnlyOfPodsWithANode(t *testing.T) {
	t.Parallel()
	for node, want := range map[string]string{"": "", "node": "cards"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{inventory.AssignmentAnnotation: "cards"}}, Spec: corev1.PodSpec{NodeName: node}}
		trim(t, ForScheduler(), pod)
		if got, kept := pod.Annotations[inventory.AssignmentAnnotation]; got != want || !kept {
			t.Errorf("on node %q: the assignment is %q (there: %t), want %q", node, got, kept, want)
		}
	}
}

func TestNodesLoseTheirManagedFields(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	trim(t, ForScheduler(), node)
	if diff := cmp.Diff(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, node); diff != "" {
		t.Error(diff)
	}
}

func TestOtherObjectsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	deleted := cache.DeletedFinalStateUnknown{Key: "default/pod", Obj: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Command: []string{"a"}}}}}}
	trim(t, ForScheduler(), deleted)
	if len(deleted.Obj.(*corev1.Pod).Spec.Containers[0].Command) != 1 {
		t.Error("an object that is in a cache already was changed")
	}
}

func cpus(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

func TestEqualRequestsAreSharedInTheScheduler(t *testing.T) {
	t.Parallel()
	trimmer := ForScheduler()
	made := func(amount string) *corev1.Pod {
		pod := &corev1.Pod{}
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpus(amount), Limits: cpus(amount)}}}
		pod.Spec.Tolerations = []corev1.Toleration{{Key: amount}}
		if _, err := trimmer.Transform(pod); err != nil {
			t.Fatal(err)
		}
		return pod
	}
	first, equal, other := made("1"), made("1"), made("2")
	same := func(a, b *corev1.Pod) bool {
		requests := reflect.ValueOf(a.Spec.Containers[0].Resources.Requests).Pointer() == reflect.ValueOf(b.Spec.Containers[0].Resources.Limits).Pointer()
		return requests && &a.Spec.Tolerations[0] == &b.Spec.Tolerations[0]
	}
	if !same(first, equal) || same(first, other) {
		t.Errorf("shared: %t, want true; with another: %t, want false", same(first, equal), same(first, other))
	}
	if cpu := other.Spec.Containers[0].Resources.Requests.Cpu(); cpu.String() != "2" {
		t.Errorf("the other Pod requests %s, want 2", cpu)
	}
}

// Whatever is in a Pod, what kube-scheduler computes from it stays the same, and so does the work that it loses if it
// is preempted.
func TestATrimmedPodNeedsTheSame(t *testing.T) {
	t.Parallel()
	filler := randfill.NewWithSeed(7).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
	)
	trimmer := ForScheduler()
	for range 300 {
		pod := &corev1.Pod{}
		filler.Fill(pod)
		before := pod.DeepCopy()
		if _, err := trimmer.Transform(pod); err != nil {
			t.Fatal(err)
		}
		for _, options := range []resourcehelper.PodResourcesOptions{{}, {UseStatusResources: true}} {
			if diff := cmp.Diff(resourcehelper.PodRequests(before, options), resourcehelper.PodRequests(pod, options)); diff != "" {
				t.Fatalf("requests differ: %s", diff)
			}
		}
		if full, trimmed := podfacts.Started(before), podfacts.Started(pod); !full.Equal(trimmed) {
			t.Fatalf("its work began at %v, want %v", trimmed, full)
		}
		if diff := cmp.Diff(featuresOf(t, before), featuresOf(t, pod)); diff != "" {
			t.Fatalf("features differ: %s", diff)
		}
		after := pod.DeepCopy()
		if _, err := trimmer.Transform(after); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pod, after); diff != "" {
			t.Fatalf("a second time it is trimmed to something else: %s", diff)
		}
	}
}

func featuresOf(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	needed, err := nodedeclaredfeatures.DefaultFramework.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: &pod.Spec}, version.MajorMinor(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	names, err := nodedeclaredfeatures.DefaultFramework.Unmap(needed)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
