// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// resized returns a later state of a Pod, in which it requests other amounts.
func resized(p *corev1.Pod, requests corev1.ResourceList) *corev1.Pod {
	p = p.DeepCopy()
	p.ResourceVersion += "1"
	maps.Copy(p.Spec.Containers[0].Resources.Requests, requests)
	return p
}

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

func TestAWaitingPodThatIsResizedNeedsItsNewSize(t *testing.T) {
	t.Parallel()
	p := pod("a")
	gated := p.DeepCopy()
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}}
	whole := p.DeepCopy()
	whole.ResourceVersion = "1"
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu("3")}
	sidecar := p.DeepCopy()
	sidecar.ResourceVersion = "1"
	sidecar.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: cpu("5")}}}
	tests := map[string]struct {
		before, after *corev1.Pod
		gpus          int
		milliCPU      int64
	}{
		"a container":                               {p, resized(p, cpu("2")), 1, 2000},
		"the Pod as a whole":                        {p, whole, 1, 3000},
		"an init container":                         {p, sidecar, 1, 5000},
		"by a webhook, when its gate is removed":    {gated, resized(p, corev1.ResourceList{v1.ResourceGPU: resource.MustParse("4")}), 4, 0},
		"to what it had, in another unit":           {resized(p, cpu("2")), resized(resized(p, nil), cpu("2000m")), 1, 2000},
		"so that it wants less than what it wanted": {resized(p, cpu("2")), resized(resized(p, nil), cpu("1")), 1, 1000},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.before)
			f.Observe(test.after)
			shape := f.Attempt("a").Waiting[0].Shape
			if shape.GPUs != test.gpus || shape.CPU != test.milliCPU {
				t.Errorf("it needs %d GPUs and %dm CPU, want %d and %dm", shape.GPUs, shape.CPU, test.gpus, test.milliCPU)
			}
		})
	}
}

func TestAResizeDuringAnAttemptIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	attempt := f.Attempt(pods[0].UID)
	f.Observe(resized(pods[1], cpu("2")))
	f.Fail(attempt.Group, f.now(), f.now().Add(time.Minute))
	if diff := cmp.Diff([]string{"train-0"}, f.due()); diff != "" {
		t.Errorf("to be tried (-want +got):\n%s", diff)
	}
}

func TestAGangThatIsResizedForgetsItsFailedAttempt(t *testing.T) {
	t.Parallel()
	alone := []*corev1.Pod{pod("alone")}
	tests := map[string]struct {
		pods    []*corev1.Pod
		resized int
	}{
		"a Pod alone":    {alone, 0},
		"the leader":     {gangOf("train", 3, 3), 0},
		"another member": {gangOf("train", 3, 3), 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.pods...)
			f.fail(test.pods[0], time.Minute)
			pods := slices.Clone(test.pods)
			pods[test.resized] = resized(pods[test.resized], cpu("2"))
			actions := f.Observe(pods[test.resized])
			var leaders []string
			for _, p := range pods {
				if f.gate(p) == "" {
					leaders = append(leaders, p.Name)
				}
			}
			if names := namesOf(actions.Activate); len(leaders) != 1 || !slices.Contains(names, leaders[0]) {
				t.Errorf("queued are %q, and %q may enter the queue", names, leaders)
			}
			if f.Failing() != 0 {
				t.Errorf("%d gangs have failed", f.Failing())
			}
		})
	}
}

func TestAResizeTakesTheSeatOfAPodThatIsNotBeingBound(t *testing.T) {
	t.Parallel()
	pods := gangOf("train", 2, 2)
	f := newFixture(t, pods...)
	f.seat(pods[0], 2)
	f.pass(pods[0])
	got := inNames(f.Observe(resized(pods[1], cpu("2"))))
	if diff := cmp.Diff([]string{"train-0", "train-1"}, got.Release); diff != "" {
		t.Errorf("seats that are given back (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"train-0"}, got.Reject); diff != "" {
		t.Errorf("turned away from the barrier (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{}, f.seated()); diff != "" {
		t.Errorf("seated (-want +got):\n%s", diff)
	}
}

// Its Binding may be on its way, and another Pod must not get its GPUs.
func TestAPodThatIsResizedWhileItIsBeingBoundKeepsItsSeat(t *testing.T) {
	t.Parallel()
	p := pod("a")
	f := newFixture(t, p)
	f.seat(p, 1)
	f.barrier(p)
	p = resized(p, cpu("2"))
	if diff := cmp.Diff(nothing(), inNames(f.Observe(p))); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if !f.Placing(p.UID) {
		t.Fatal("it has lost its seat")
	}
	f.withdraw(p)
	if got := f.Attempt(p.UID).Waiting[0].Shape.CPU; got != 2000 {
		t.Errorf("when it could not be bound it needs %dm CPU, want 2000m", got)
	}
}
