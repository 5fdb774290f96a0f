// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// allocated adds the status of container c0: what the kubelet has allocated to it, and what
// it has.
func allocated(p *corev1.Pod, promised, has string) *corev1.Pod {
	status := corev1.ContainerStatus{Name: "c0", AllocatedResources: container("", promised).Resources.Requests}
	if has != "" {
		status.Resources = &corev1.ResourceRequirements{Requests: container("", has).Resources.Requests}
	}
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, status)
	return p
}

// pending adds why a resize has not happened yet.
func pending(p *corev1.Pod, reason string) *corev1.Pod {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason})
	return p
}

// asAWhole sets what a Pod requests for all its containers, and, if not empty, what is
// allocated to it and what it has.
func asAWhole(p *corev1.Pod, requests, promised, has string) *corev1.Pod {
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: container("", requests).Resources.Requests}
	if promised != "" {
		p.Status.AllocatedResources = container("", promised).Resources.Requests
		p.Status.Resources = &corev1.ResourceRequirements{Requests: container("", has).Resources.Requests}
	}
	return p
}

func TestAPodThatIsResizedHoldsTheMostOfAll(t *testing.T) {
	t.Parallel()
	mebi := func(cpu, memory int64) placement.Use { return placement.Use{CPU: cpu, Memory: memory} }
	tests := map[string]struct {
		pod  *corev1.Pod
		want placement.Use
	}{
		"it is not resized":                         {allocated(pod("cpu=4,memory=4Mi"), "cpu=4,memory=4Mi", "cpu=4,memory=4Mi"), mebi(4000, 4)},
		"it shrinks, and the kubelet does not know": {allocated(pod("cpu=1,memory=4Mi"), "cpu=4,memory=4Mi", "cpu=4,memory=4Mi"), mebi(4000, 4)},
		"it shrinks, and its container has not":     {allocated(pod("cpu=1,memory=1Mi"), "cpu=1,memory=1Mi", "cpu=4,memory=4Mi"), mebi(4000, 4)},
		"it has shrunk":                             {allocated(pod("cpu=1,memory=1Mi"), "cpu=1,memory=1Mi", "cpu=1,memory=1Mi"), mebi(1000, 1)},
		"it has shrunk in CPU":                      {allocated(pod("cpu=1,memory=1Mi"), "cpu=1,memory=1Mi", "cpu=1,memory=4Mi"), mebi(1000, 4)},
		"it grows, and waits for room":              {pending(allocated(pod("cpu=4"), "cpu=1", "cpu=1"), corev1.PodReasonDeferred), mebi(4000, 0)},
		"it can never grow":                         {pending(allocated(pod("cpu=4"), "cpu=1", "cpu=1"), corev1.PodReasonInfeasible), mebi(1000, 0)},
		"it grows beside a container that stays":    {allocated(pod("cpu=4", "cpu=2"), "cpu=1", "cpu=1"), mebi(6000, 0)},
		"its status is not there yet":               {pod("cpu=4,memory=4Mi"), mebi(4000, 4)},
		"it shrinks as a whole":                     {asAWhole(pod("cpu=1"), "cpu=2", "cpu=8", "cpu=8"), mebi(8000, 0)},
		"it has shrunk as a whole":                  {asAWhole(pod("cpu=1"), "cpu=2", "cpu=2", "cpu=2"), mebi(2000, 0)},
		"another resource is not in the status yet": {
			allocated(pod("cpu=1,rdma/hca=2"), "cpu=4,rdma/hca=2", "cpu=4"),
			placement.Use{CPU: 4000, Others: placement.Amounts{{Resource: "rdma/hca", Value: 2}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, Use(test.pod, nil)); diff != "" {
				t.Errorf("it holds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAShareKeepsItsSizeWhateverTheStatusSays(t *testing.T) {
	t.Parallel()
	p := pending(allocated(pod("cpu=4,percent=30"), "cpu=1", "cpu=1"), corev1.PodReasonInfeasible)
	want := placement.Use{CPU: 1000, GPUs: []int{2}, Percent: 30}
	if diff := cmp.Diff(want, Use(p, []int{2})); diff != "" {
		t.Errorf("it holds (-want +got):\n%s", diff)
	}
}

func TestAWaitingPodAsksForItsSpec(t *testing.T) {
	t.Parallel()
	p := pod("cpu=1")
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
	shape, err := Shape(allocated(p, "cpu=4", ""))
	if err != nil || shape.CPU != 3000 {
		t.Errorf("it asks for %dm CPU, error %v, want 3000m", shape.CPU, err)
	}
}

func TestResizedTellsWhenOtherAmountsCount(t *testing.T) {
	t.Parallel()
	before := func() *corev1.Pod { return allocated(pod("cpu=4"), "cpu=4", "cpu=4") }
	ready := before()
	ready.Status.ContainerStatuses[0].Ready = true
	tests := map[string]struct {
		after *corev1.Pod
		want  bool
	}{
		"nothing has changed":           {before(), false},
		"its containers are ready":      {ready, false},
		"it is to shrink":               {allocated(pod("cpu=1"), "cpu=4", "cpu=4"), false},
		"it has shrunk":                 {allocated(pod("cpu=1"), "cpu=1", "cpu=1"), true},
		"it is to grow":                 {allocated(pod("cpu=8"), "cpu=4", "cpu=4"), true},
		"another spelling of as much":   {allocated(pod("cpu=4000m"), "cpu=4", "cpu=4"), false},
		"it was to grow, but never can": {pending(allocated(pod("cpu=8"), "cpu=4", "cpu=4"), corev1.PodReasonInfeasible), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Resized(before(), test.after); got != test.want {
				t.Errorf("Resized is %t, want %t", got, test.want)
			}
		})
	}
}

// TestRequestsAreThoseOfKubernetes: the short cuts for plain Pods change nothing.
func TestRequestsAreThoseOfKubernetes(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	short := 0
	for range 20_000 {
		one := randomPod(dice)
		before := one.DeepCopy()
		if diff := cmp.Diff(resourcehelper.PodRequests(one, resourcehelper.PodResourcesOptions{}), Requests(one)); diff != "" {
			t.Fatalf("%+v asks for (- Kubernetes, + ours):\n%s", one, diff)
		}
		want := resourcehelper.PodRequests(one, resourcehelper.PodResourcesOptions{
			UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true, UseDRANodeAllocatableResourceClaimStatus: true,
		})
		if diff := cmp.Diff(want, held(one)); diff != "" {
			t.Fatalf("%+v holds (- Kubernetes, + ours):\n%s", one, diff)
		}
		if !equality.Semantic.DeepEqual(one, before) {
			t.Fatalf("the Pod was changed: %s", cmp.Diff(before, one))
		}
		if isPlain(one) && hasPlainStatus(one) {
			short++
		}
	}
	if short < 1000 {
		t.Errorf("only %d Pods were plain", short)
	}
}

// randomPod returns a Pod of one or two containers, of which much is the same more often
// than not, so that many Pods are plain.
func randomPod(dice *rand.Rand) *corev1.Pod {
	amounts := func() string { return []string{"cpu=2,memory=1Gi", "cpu=2,memory=1Gi", "cpu=4"}[dice.IntN(3)] }
	list := func() corev1.ResourceList { return container("", amounts()).Resources.Requests }
	seldom := func() bool { return dice.IntN(6) == 0 }
	containers := []string{amounts()}
	if seldom() {
		containers = append(containers, amounts())
	}
	one := pod(containers...)
	if seldom() {
		one.Spec.InitContainers = []corev1.Container{container("init", "cpu=8")}
	}
	if seldom() {
		one.Spec.Overhead = list()
	}
	if dice.IntN(2) == 0 {
		allocated(one, amounts(), []string{"", amounts()}[dice.IntN(2)])
	}
	if seldom() {
		pending(one, []string{corev1.PodReasonDeferred, corev1.PodReasonInfeasible}[dice.IntN(2)])
	}
	if seldom() {
		asAWhole(one, amounts(), []string{"", amounts()}[dice.IntN(2)], amounts())
	}
	if seldom() {
		one.Status.AllocatedResources = list()
		one.Status.Resources = &corev1.ResourceRequirements{Requests: list()}
	}
	return one
}
