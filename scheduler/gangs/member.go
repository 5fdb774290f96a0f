// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"cmp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Member is a Pod that has not ended.
type Member struct {
	// Pod is its last known state. It is not to be changed.
	Pod   *corev1.Pod
	Shape placement.Shape
	// Err is what is wrong with what the Pod asks for.
	Err error
	// Learned is for the planner: true once the Pod counts as demand.
	Learned bool

	group *Group
	index int
	// said is what the Pod says about its gang; nil for a Pod that is alone, or if
	// that is wrong.
	said  *snapshot.GangLabels
	wrong error
	// doomed is true for a Pod with a node that is about to be deleted.
	doomed bool
	// announced is true once the informer has told of the Pod, not just the queue.
	announced bool
	// seat is where the Pod goes by the gang's plan; nil without one.
	seat *Seat
}

// UID is the Pod's.
func (m *Member) UID() types.UID { return m.Pod.UID }

// Group is the gang that the Pod is in.
func (m *Member) Group() *Group { return m.group }

// Seat is a Pod's place in a plan.
type Seat struct {
	placement.Place
	// Plan is the plan's number. Numbers are never used again.
	Plan uint64
	// reserved is true once the Pod waits at the barrier.
	reserved bool
}

func newMember(pod *corev1.Pod) *Member {
	m := &Member{Pod: pod, index: indexOf(pod)}
	m.Shape, m.Err = snapshot.Shape(pod)
	m.said, m.wrong = snapshot.Gang(pod)
	return m
}

// indexOf returns the Pod's index in its task or Job; those without one come
// last.
func indexOf(pod *corev1.Pod) int {
	for _, label := range []string{v1.LabelIndex, "batch.kubernetes.io/job-completion-index"} {
		if index, err := strconv.Atoi(pod.Labels[label]); err == nil {
			return index
		}
	}
	return int(^uint(0) >> 1)
}

// bound is true for a Pod that has a node, for good.
func (m *Member) bound() bool { return m.Pod.Spec.NodeName != "" }

// stays is true for a Pod that has a node and is not on its way out.
func (m *Member) stays() bool { return m.bound() && !m.doomed && m.Pod.DeletionTimestamp == nil }

// waiting is true for a Pod that needs a seat.
func (m *Member) waiting() bool { return !m.bound() && m.seat == nil && m.Pod.DeletionTimestamp == nil }

// compareMembers orders a gang's members: by index, then by age.
func compareMembers(a, b *Member) int {
	return cmp.Or(
		cmp.Compare(a.index, b.index),
		a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time),
		cmp.Compare(a.Pod.Name, b.Pod.Name),
		cmp.Compare(a.Pod.UID, b.Pod.UID),
	)
}

func priorityOf(pod *corev1.Pod) int32 { return schedulingv1.PodPriority(pod) }
