// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/nodeagent/podresources"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

const gpuResource = "falldio.com/gpu"

// container wants so many GPUs.
func container(name string, amount int64) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{gpuResource: *resource.NewQuantity(amount, resource.DecimalSI)},
	}}
}

// claimant is a Pod with a container that claims GPUs, bound so many seconds
// after the others.
func claimant(tb testing.TB, name string, second int64, ids ...string) *corev1.Pod {
	tb.Helper()
	var assignment inventory.Assignment
	assignment.Add("c", gpuResource, ids...)
	value, err := assignment.String()
	if err != nil {
		tb.Fatal(err)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name),
			Annotations: map[string]string{inventory.AssignmentAnnotation: value},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{container("c", int64(len(ids)))}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, LastTransitionTime: metav1.Unix(1000+second, 0)},
		}},
	}
}

func with(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(pod)
	return pod
}

// show renders claims as "pod/container:id,id …".
func show(claims []Claim) string {
	var words []string
	for _, claim := range claims {
		words = append(words, claim.Pod.Name+"/"+claim.Container+":"+strings.Join(claim.IDs, ","))
	}
	return strings.Join(words, " ")
}

func claimsOn(pods ...*corev1.Pod) *PodClaims {
	return NewPodClaims(func() []*corev1.Pod { return pods })
}

func TestPending(t *testing.T) {
	t.Parallel()
	started := metav1.NewTime(time.Unix(2000, 0))
	tests := map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"the oldest binding is first": {
			[]*corev1.Pod{claimant(t, "a", 2, "1"), claimant(t, "b", 1, "2"), claimant(t, "c", 3, "3")}, "b/c:2 a/c:1 c/c:3"},
		"then the oldest Pod": {
			[]*corev1.Pod{
				with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(2, 0) }),
				with(claimant(t, "b", 1, "2"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(1, 0) }),
			}, "b/c:2 a/c:1"},
		"then the names decide": {[]*corev1.Pod{claimant(t, "b", 1, "2"), claimant(t, "a", 1, "1")}, "a/c:1 b/c:2"},
		"a Pod that has started has its devices": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.Status.StartTime = &started })}, ""},
		"a Pod that has ended needs none": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, ""},
		"a Pod that is going needs none": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.DeletionTimestamp = &started })}, ""},
		"a Pod without the annotation claims nothing": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.Annotations = nil })}, ""},
		"an annotation that can't be read claims nothing": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) {
				p.Annotations[inventory.AssignmentAnnotation] = "{"
			}), claimant(t, "b", 1, "2")}, "b/c:2"},
		"a claim to more than the container wants is void": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1", "2"), func(p *corev1.Pod) { p.Spec.Containers[0] = container("c", 1) })}, ""},
		"a claim of another container is void": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.Spec.Containers[0].Name = "d" })}, ""},
		"init containers come first": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{container("init", 1)}
				p.Annotations[inventory.AssignmentAnnotation] =
					`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1"]},"init":{"falldio.com/gpu":["2"]}}}`
			})}, "a/init:2 a/c:1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, show(claimsOn(test.pods...).Pending(t.Context(), gpuResource))); diff != "" {
				t.Errorf("Pending() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAClaimIsSettledOnce(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{claimant(t, "old", 1, "1", "2"), claimant(t, "new", 2, "1", "2"), claimant(t, "other", 3, "3")}
	claims := NewPodClaims(func() []*corev1.Pod { return pods })
	steps := []struct {
		what string
		do   func()
		want string
	}{
		{"devices that nobody claims", func() { claims.Taken(t.Context(), gpuResource, []string{"1"}) }, "old/c:1,2 new/c:1,2 other/c:3"},
		{"a claim, in any order", func() { claims.Taken(t.Context(), gpuResource, []string{"2", "1"}) }, "new/c:1,2 other/c:3"},
		{"another resource", func() { claims.Taken(t.Context(), "falldio.com/rdma", []string{"3"}) }, "new/c:1,2 other/c:3"},
		{"a claim to the same devices", func() { claims.Taken(t.Context(), gpuResource, []string{"1", "2"}) }, "other/c:3"},
		{"what the kubelet gave before", func() {
			claims.Observe([]podresources.Allocation{
				{Namespace: "ns", Pod: "other", Container: "c", Resource: gpuResource, DeviceIDs: []string{"9"}},
				{Namespace: "ns", Pod: "gone", Container: "c", Resource: gpuResource, DeviceIDs: []string{"8"}},
			})
		}, ""},
		{"a Pod that comes anew claims anew", func() { pods[0].UID = "another" }, "old/c:1,2"},
	}
	for _, step := range steps {
		step.do()
		if diff := cmp.Diff(step.want, show(claims.Pending(t.Context(), gpuResource))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
	claims.Taken(t.Context(), gpuResource, []string{"1", "2"})
	if len(claims.taken) != 3 {
		t.Errorf("a Pod that is gone is remembered: %v", claims.taken)
	}
}
