// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// member is a Pod that holds a place or waits for one.
type member struct {
	pod *corev1.Pod
	// task is nil for the Pods of others.
	task  *Task
	unit  *unit
	shape placement.Shape
	// err is what is wrong with what the Pod asks for.
	err error
}

// waits reports whether a Pod looks for a node.
func (m *member) waits() bool { return waitsForScheduler(m.pod) }

// works reports whether a Pod runs and stays.
func (m *member) works() bool {
	return m.pod.Spec.NodeName != "" && m.pod.DeletionTimestamp == nil && m.pod.Status.Phase == corev1.PodRunning
}

// unit is what moves together: a gang, which several tasks of one Pod may make, or
// a Pod that is alone.
type unit struct {
	// key is the gang's name with its namespace, or the Pod's UID.
	key string
	// gang is what the Pods say about it; nil for a Pod that is alone.
	gang    *snapshot.GangLabels
	members []*member
	// tasks are those that the members belong to, the oldest first.
	tasks []*Task
	// err is what is wrong with the gang's labels.
	err error
	// judged is true if fixed is known: why it may not be moved now, or nothing.
	judged bool
	fixed  string
}

// group finds out which Pods belong together.
func (s *Scene) group() {
	for _, m := range s.sorted() {
		gang, err := snapshot.Gang(m.pod)
		key := unitKey(m, gang)
		u := s.byKey[key]
		if u == nil {
			u = &unit{key: key, gang: gang, err: err}
			s.byKey[key] = u
			s.units = append(s.units, u)
		}
		m.unit = u
		u.members = append(u.members, m)
		if m.task != nil && !slices.Contains(u.tasks, m.task) {
			u.tasks = append(u.tasks, m.task)
			name := nameOf(m.task.GPUTask)
			s.byTask[name] = append(s.byTask[name], u)
		}
	}
	for _, u := range s.units {
		slices.SortStableFunc(u.tasks, func(a, b *Task) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	slices.SortFunc(s.units, func(a, b *unit) int { return cmp.Compare(a.key, b.key) })
}

func nameOf(task *v1.GPUTask) types.NamespacedName {
	return types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
}

// unitKey names what a Pod moves with. The labels of a task's Pods can be changed by
// anybody; its Pods belong together all the same.
func unitKey(m *member, gang *snapshot.GangLabels) string {
	switch {
	case m.task != nil && gputask.Replicas(m.task.GPUTask) > 1:
		return m.task.Namespace + "/" + m.task.Name
	case gang != nil:
		return gang.Name
	default:
		return "Pod " + string(m.pod.UID)
	}
}

// together is the name of the gang for the engine; empty for a Pod that is alone.
func (u *unit) together() string {
	if u.gang == nil && len(u.members) == 1 {
		return ""
	}
	return u.key
}

// GangOf returns the gang that a Pod, given by its UID, leaves with; empty for one that is
// alone or unknown.
func (s *Scene) GangOf(uid string) string {
	if m := s.members[uid]; m != nil && m.unit.gang != nil {
		return m.unit.key
	}
	return ""
}

// Spare returns how many Pods of a gang that have a node may leave while the others stay:
// those above the smallest minimum that its Pods name.
func (s *Scene) Spare(gang string) int {
	u := s.byKey[gang]
	if u == nil {
		return 0
	}
	staying, minimum := 0, math.MaxInt
	for _, m := range u.members {
		labels, err := snapshot.Gang(m.pod)
		if err != nil || labels == nil {
			return 0
		}
		minimum = min(minimum, labels.Min)
		if m.pod.Spec.NodeName != "" && m.pod.DeletionTimestamp == nil {
			staying++
		}
	}
	return max(0, staying-minimum)
}

// priority is the highest of the Pods'.
func (u *unit) priority() int32 {
	highest := priorityOf(u.members[0].pod)
	for _, m := range u.members {
		highest = max(highest, priorityOf(m.pod))
	}
	return highest
}

func priorityOf(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}
