// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"cmp"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Member is a Pod that has not ended. Its exported fields never change: a Pod whose
// needs change becomes another Member.
type Member struct {
	UID   types.UID
	Shape placement.Shape
	// Err is why the Pod's request is invalid.
	Err error
	// Learned is for the planner: true once the Pod counts as demand.
	Learned bool

	// claimed is how many GPUs of the Shape the Pod asks for with resource claims.
	claimed int

	pod   atomic.Pointer[corev1.Pod]
	group *Group
	index int
	// labels are the Pod's gang labels; nil for a Pod in no gang, or if they are invalid,
	// which wrong explains.
	labels *snapshot.GangLabels
	wrong  error
	// podGroup is the PodGroup that specifies the labels; zero without one. blocked is why
	// the gang can't be placed as long as the PodGroup is as it is.
	podGroup snapshot.GroupRef
	blocked  error
	// misplaced is true for a Pod that belongs into another group once it is bound.
	misplaced bool
	// outdated is true for a Pod whose needs have changed while it was being bound.
	outdated bool
	// ours is false for the Pods of other schedulers, which are only tracked so that their
	// gangs are not torn apart.
	ours bool
	// terminating is true for a Pod with a node that is about to be deleted.
	terminating bool
	// seat is where the Pod goes by the gang's plan; nil without one.
	seat *Seat
}

// Pod is the member's last known state. It is not to be changed.
func (m *Member) Pod() *corev1.Pod { return m.pod.Load() }

// Group is the gang that the Pod is in.
func (m *Member) Group() *Group { return m.group }

// Seat is a Pod's place in a plan.
type Seat struct {
	placement.Place
	// Plan is the plan's number. Numbers are never reused.
	Plan uint64
	// order is the place's position in the plan: the Pods come to the barrier in this order,
	// as what a node accepts may depend on the Pods before.
	order int
	// tried is true once a scheduling cycle has gone to the seat, and reserved once the Pod
	// waits at the barrier.
	tried, reserved bool
}

// newMember returns a Member that asks for so many GPUs with resource claims, besides what is
// in the Pod.
func newMember(pod *corev1.Pod, claimed int, ours bool) *Member {
	m := &Member{UID: pod.UID, claimed: claimed, index: indexOf(pod), ours: ours}
	m.pod.Store(pod)
	if claimed > 0 {
		m.Shape, m.Err = snapshot.ShapeOfClaims(pod, claimed)
	} else {
		m.Shape, m.Err = snapshot.Shape(pod)
	}
	if ref, found := snapshot.PodGroupOf(pod); found {
		m.podGroup = ref
	} else {
		m.labels, m.wrong = snapshot.Gang(pod)
	}
	return m
}

// identity are the labels that determine which gang a Pod is in, and which member it is.
var identity = [...]string{v1.LabelPodGroup, v1.LabelMinAvailable, v1.LabelTask, v1.LabelIndex, jobIndex} //nolint:gochecknoglobals // a constant

const jobIndex = "batch.kubernetes.io/job-completion-index"

// indexOf returns the Pod's index in its task or Job; those without one come
// last.
func indexOf(pod *corev1.Pod) int {
	for _, label := range []string{v1.LabelIndex, jobIndex} {
		if index, err := strconv.Atoi(pod.Labels[label]); err == nil {
			return index
		}
	}
	return int(^uint(0) >> 1)
}

// needsChanged reports whether the needs of a Pod without a node have changed, or its
// gang: both may change when a scheduling gate is removed, and what it requests may be
// resized at any time.
func needsChanged(before, after *corev1.Pod) bool {
	if before.ResourceVersion == after.ResourceVersion {
		return false
	}
	for _, label := range identity {
		if before.Labels[label] != after.Labels[label] {
			return true
		}
	}
	return snapshot.GroupChanged(before, after) ||
		before.Annotations[v1.AnnotationTopologyLevel] != after.Annotations[v1.AnnotationTopologyLevel] ||
		before.Annotations[v1.AnnotationTopologyMode] != after.Annotations[v1.AnnotationTopologyMode] ||
		!equality.Semantic.DeepEqual(before.Spec.NodeSelector, after.Spec.NodeSelector) ||
		!equality.Semantic.DeepEqual(before.Spec.Affinity, after.Spec.Affinity) ||
		!equality.Semantic.DeepEqual(before.Spec.Tolerations, after.Spec.Tolerations) ||
		!equality.Semantic.DeepEqual(snapshot.Requests(before), snapshot.Requests(after))
}

// bound reports whether a Pod has a node. That never changes back.
func (m *Member) bound() bool { return m.Pod().Spec.NodeName != "" }

// deleting reports whether the Pod is being deleted.
func (m *Member) deleting() bool { return m.Pod().DeletionTimestamp != nil }

// stays reports whether a Pod has a node and is not on its way out.
func (m *Member) stays() bool { return m.bound() && !m.terminating && !m.deleting() }

// waiting reports whether a Pod needs a seat, and could take one.
func (m *Member) waiting() bool {
	return m.ours && !m.bound() && m.seat == nil && !m.deleting() && len(m.Pod().Spec.SchedulingGates) == 0
}

// standing is what a member counts as for its gang.
type standing int

const (
	// absent members don't count: they are not scheduled by this process, have gates, or are
	// on their way out.
	absent standing = iota
	// stays is for members that stay on a node or have a seat.
	stays
	// waits is for members that need a seat.
	waits
)

func (m *Member) standing() standing {
	switch {
	case m.stays() || m.seat != nil:
		return stays
	case m.waiting():
		return waits
	default:
		return absent
	}
}

// compareMembers orders a gang's members: by index, then by age.
func compareMembers(a, b *Member) int {
	if order := cmp.Compare(a.index, b.index); order != 0 {
		return order
	}
	return cmp.Or(
		a.Pod().CreationTimestamp.Compare(b.Pod().CreationTimestamp.Time),
		cmp.Compare(a.Pod().Name, b.Pod().Name),
		cmp.Compare(a.UID, b.UID),
	)
}

func priorityOf(pod *corev1.Pod) int32 { return schedulingv1.PodPriority(pod) }
