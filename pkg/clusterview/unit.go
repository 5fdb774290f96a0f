// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Member is a Pod that holds a place or waits for one.
type Member struct {
	Pod *corev1.Pod
	// Task is nil for Pods of other owners.
	Task  *Task
	Unit  *Unit
	Shape placement.Shape
	// Err is what is wrong with the requests of the Pod.
	Err error
}

// Waits reports whether a Pod waits for a node.
func (m *Member) Waits() bool { return WaitsForScheduler(m.Pod) }

// Runs reports whether a Pod runs and is not being deleted.
func (m *Member) Runs() bool {
	return m.stays() && m.Pod.Status.Phase == corev1.PodRunning
}

// stays reports whether a Pod has a node and is not on its way out.
func (m *Member) stays() bool { return m.Pod.Spec.NodeName != "" && m.Pod.DeletionTimestamp == nil }

// WaitsForScheduler reports whether a Pod has no node and no prospect of one: a Pod with a
// nominated node has one, and a gated Pod does not wait for the scheduler.
func WaitsForScheduler(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil &&
		pod.Status.NominatedNodeName == "" && len(pod.Spec.SchedulingGates) == 0
}

// Unit is what moves together: a gang, which may consist of several tasks of one Pod, or a
// single Pod.
type Unit struct {
	// Key is the gang's name with its namespace, or the Pod's UID.
	Key string
	// Gang is what the labels of the Pods specify; nil for a single Pod.
	Gang    *snapshot.GangLabels
	Members []*Member
	// Tasks are the tasks of the Members, the oldest first.
	Tasks []*Task
	// Err is what is wrong with the gang's labels.
	Err error
}

// group groups the members into units.
func (v *View) group() {
	for _, m := range v.sorted() {
		gang, err := snapshot.Gang(m.Pod)
		key := unitKey(m, gang)
		u := v.byKey[key]
		if u == nil {
			u = &Unit{Key: key, Gang: gang, Err: err}
			v.byKey[key] = u
			v.Units = append(v.Units, u)
		}
		m.Unit = u
		u.Members = append(u.Members, m)
		if m.Task != nil && !slices.Contains(u.Tasks, m.Task) {
			u.Tasks = append(u.Tasks, m.Task)
			name := NameOf(m.Task.GPUTask)
			v.byTask[name] = append(v.byTask[name], u)
		}
	}
	for _, u := range v.Units {
		slices.SortStableFunc(u.Tasks, func(a, b *Task) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	slices.SortFunc(v.Units, func(a, b *Unit) int { return cmp.Compare(a.Key, b.Key) })
}

// NameOf returns the namespace and name of a task.
func NameOf(task *v1.GPUTask) types.NamespacedName {
	return types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
}

// unitKey returns the key of a Pod's unit. Anybody can change the labels of a task's Pods;
// they belong together all the same.
func unitKey(m *Member, gang *snapshot.GangLabels) string {
	switch {
	case m.Task != nil && gputask.IsGang(m.Task.GPUTask):
		return m.Task.Namespace + "/" + m.Task.Name
	case gang != nil:
		return gang.Name
	default:
		return "Pod " + string(m.Pod.UID)
	}
}

// Group returns the name of the gang for the engine; empty for a single Pod.
func (u *Unit) Group() string {
	if u.Gang == nil && len(u.Members) == 1 {
		return ""
	}
	return u.Key
}

// GangOf returns the gang that a Pod, given by its UID, belongs to; empty for a single or
// unknown Pod.
func (v *View) GangOf(uid string) string {
	if m := v.members[uid]; m != nil && m.Unit.Gang != nil {
		return m.Unit.Key
	}
	return ""
}

// Spare returns how many bound Pods of a gang may leave while the others stay: those above
// the lowest minimum in the labels of its Pods.
func (v *View) Spare(gang string) int {
	u := v.byKey[gang]
	if u == nil {
		return 0
	}
	minimum := math.MaxInt
	for _, m := range u.Members {
		labels, err := snapshot.Gang(m.Pod)
		if err != nil || labels == nil {
			return 0
		}
		minimum = min(minimum, labels.Min)
	}
	return max(0, len(v.Staying(gang))-minimum)
}

// Staying returns the Pods of a gang that have a node and are not on their way out.
func (v *View) Staying(gang string) (pods []*corev1.Pod) {
	u := v.byKey[gang]
	if u == nil {
		return nil
	}
	for _, m := range u.Members {
		if m.stays() {
			pods = append(pods, m.Pod)
		}
	}
	return pods
}

// Priority returns the highest priority of the Pods.
func (u *Unit) Priority() int32 {
	highest := schedulingv1.PodPriority(u.Members[0].Pod)
	for _, m := range u.Members {
		highest = max(highest, schedulingv1.PodPriority(m.Pod))
	}
	return highest
}
