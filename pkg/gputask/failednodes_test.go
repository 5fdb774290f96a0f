// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// refusedBy returns a Pod that was created a moment ago, and that a node refuses in the second after.
func (b podBuilder) refusedBy(node, reason string) podBuilder {
	return b.with(func(p *corev1.Pod) {
		p.Spec.NodeName, p.CreationTimestamp = node, *ago(5 * time.Second)
		p.Status.Phase, p.Status.Reason, p.Status.StartTime = corev1.PodFailed, reason, ago(4*time.Second)
	})
}

func TestNodesThatRefusePodsAreAvoided(t *testing.T) {
	t.Parallel()
	gang := func() taskBuilder { return makeTask("train").replicas(2).started(time.Hour).phase(v1.PhasePending) }
	known := func(nodes ...v1.FailedNode) func(*v1.GPUTask) {
		return func(t *v1.GPUTask) { t.Status.FailedNodes = nodes }
	}
	tests := map[string]struct {
		task taskBuilder
		pods []*corev1.Pod
		want []v1.FailedNode
	}{
		"by the device plugin": {
			task: gang(), pods: pods(gang().pod(0, 0).refusedBy("broken", "UnexpectedAdmissionError")),
			want: []v1.FailedNode{{Name: "broken", Failures: 1, LastTime: *ago(4 * time.Second)}},
		},
		"by the topology manager": {
			task: gang(), pods: pods(gang().pod(0, 0).refusedBy("broken", "TopologyAffinityError")),
			want: []v1.FailedNode{{Name: "broken", Failures: 1, LastTime: *ago(4 * time.Second)}},
		},
		"for want of a resource": {
			task: gang(), pods: pods(gang().pod(0, 0).refusedBy("broken", "OutOfcpu")),
			want: []v1.FailedNode{{Name: "broken", Failures: 1, LastTime: *ago(4 * time.Second)}},
		},
		"each of several at the same time": {
			task: gang(),
			pods: pods(gang().pod(0, 0).refusedBy("a", "OutOfcpu"), gang().pod(1, 0).refusedBy("b", "OutOfcpu")),
			want: []v1.FailedNode{{Name: "a", Failures: 1, LastTime: *ago(4 * time.Second)}, {Name: "b", Failures: 1, LastTime: *ago(4 * time.Second)}},
		},
		"once for each refusal": {
			task: gang().with(known(v1.FailedNode{Name: "a", Failures: 3, LastTime: *ago(4 * time.Second)}, v1.FailedNode{Name: "b", Failures: 3, LastTime: *ago(time.Minute)})),
			pods: pods(gang().pod(0, 0).refusedBy("a", "OutOfcpu"), gang().pod(1, 0).refusedBy("b", "OutOfcpu")),
			want: []v1.FailedNode{{Name: "a", Failures: 3, LastTime: *ago(4 * time.Second)}, {Name: "b", Failures: 4, LastTime: *ago(4 * time.Second)}},
		},
		"but not for a Pod of an earlier attempt": {
			task: gang(), pods: pods(gang().pod(0, 1).refusedBy("broken", "OutOfcpu")),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := input(tc.task, tc.pods)
			plan, err := Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, plan.Status.FailedNodes); diff != "" {
				t.Errorf("unexpected failed nodes (-want +got):\n%s", diff)
			}
			assertStable(t, in, plan)
		})
	}
}

// More nodes refuse Pods than can be remembered: the status must settle all the same.
func TestManyNodesThatRefusePodsAtTheSameTime(t *testing.T) {
	t.Parallel()
	const count = maxFailedNodes + 4
	task := makeTask("train").replicas(count).started(time.Hour).phase(v1.PhasePending)
	var refused []*corev1.Pod
	for i := range count {
		refused = append(refused, task.pod(i, 0).refusedBy(fmt.Sprintf("node-%d", i), "OutOfcpu").Pod)
	}
	in := input(task, refused)
	plan, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(plan.Status.FailedNodes); got != maxFailedNodes {
		t.Errorf("%d nodes are remembered, want %d", got, maxFailedNodes)
	}
	assertStable(t, in, plan)
}
