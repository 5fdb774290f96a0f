// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// sized returns a Pod on node a that asks for some CPU, while its container has another
// amount.
func sized(t *testing.T, asks, has string) *corev1.Pod {
	t.Helper()
	pod := on(t, aPod("resized", 1, 0), "a", "a-0")
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(asks)
	amount := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(has)}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", AllocatedResources: amount, Resources: &corev1.ResourceRequirements{Requests: amount},
	}}
	return pod
}

// The node has 64 cores.
func TestAPodThatShrinksCountsInFullUntilItHasShrunk(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, aNode(t, "a", cards("a", 4))), newMirror(t)
	steps := []struct {
		name      string
		asks, has string
		cores     int64
		freed     bool
	}{
		{name: "it runs", asks: "60", has: "60", cores: 4, freed: true}, // the node comes with it
		{name: "it is to shrink", asks: "4", has: "60", cores: 4},
		{name: "it has shrunk", asks: "4", has: "4", cores: 60, freed: true},
		{name: "it is to grow", asks: "30", has: "4", cores: 34, freed: true}, // it holds something else
		{name: "it has grown", asks: "30", has: "30", cores: 34},
	}
	var before *corev1.Pod
	for _, step := range steps {
		now := sized(t, step.asks, step.has)
		freed := m.Freed()
		if before == nil {
			w.add(now)
		} else {
			w.change(before, now)
		}
		before = now
		if got := roomFor(w, m, placement.Shape{CPU: 1000 * step.cores}); got != 1 {
			t.Errorf("when %s, there is no room for a Pod of %d cores", step.name, step.cores)
		}
		if got := roomFor(w, m, placement.Shape{CPU: 1000*step.cores + 1}); got != 0 {
			t.Errorf("when %s, there is room for a Pod of more than %d cores", step.name, step.cores)
		}
		if got := 64000 - w.infos["a"].Requested.MilliCPU; got != 1000*step.cores {
			t.Errorf("when %s, kube-scheduler has %dm CPU left, want %d cores", step.name, got, step.cores)
		}
		if got := m.Freed() != freed; got != step.freed {
			t.Errorf("when %s, there may be more cores: %t, want %t", step.name, got, step.freed)
		}
	}
}

func TestASeatOfAPodThatWasResizedWithholdsNothingOnceThePodIsThere(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, aNode(t, "a", cards("a", 4))), newMirror(t)
	m.Refresh(w.snapshot())
	hold(t, m, aPod("stays", 1, 0), "a")
	want := seatedOn(m, "a")
	grows := aPod("grows", 1, 0)
	hold(t, m, grows, "a")
	arrived := on(t, grows, "a", "a-1")
	arrived.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
	w.add(arrived)
	m.Refresh(w.snapshot())
	if diff := cmp.Diff(want, seatedOn(m, "a")); diff != "" {
		t.Errorf("withheld for the other Pod (-want +got):\n%s", diff)
	}
}
