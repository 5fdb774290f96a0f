// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Waiting is a task whose Pods wait for a node.
type Waiting struct {
	// Task is the oldest task of the gang; mostly there is only one.
	Task Task
	// Pods are those without a node, of all tasks of the gang.
	Pods []*corev1.Pod
	// Gang is what has to be placed; nil if there is an Err.
	Gang     *snapshot.Members[*corev1.Pod]
	Priority int32
	// Since is when the oldest of the Pods was created: the order of the queue.
	Since time.Time
	// Patient is how long all of the Pods have waited: the waiting time of the newest.
	Patient time.Duration
	// Err is why it can't be placed at all: the gang is incomplete, or its requests are
	// invalid.
	Err error

	// Unit is the unit of the Pods.
	Unit *Unit
}

// Waiting returns the tasks whose Pods wait for a node, in the scheduler's order: that of the queues or,
// without GPUQueues, by priority, then by age.
func (v *View) Waiting() []Waiting {
	var list []Waiting
	for _, u := range v.Units {
		if w := v.waitingOf(u); w != nil {
			list = append(list, *w)
		}
	}
	slices.SortStableFunc(list, func(a, b Waiting) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), a.Since.Compare(b.Since), cmp.Compare(a.Unit.Key, b.Unit.Key))
	})
	if v.Queues == nil {
		return list
	}
	applying := make([]gpuqueue.Applying, len(list))
	for i := range list {
		applying[i] = list[i].applying()
	}
	ordered := make([]Waiting, len(list))
	for i, index := range v.Queues.Order(applying) {
		ordered[i] = list[index]
	}
	return ordered
}

// applying describes a task for the order of the queues.
func (w *Waiting) applying() gpuqueue.Applying {
	asks, amount := gpuqueue.Applying{Pod: w.Pods[0]}, queueing.Amount(0)
	for _, pod := range w.Pods {
		amount += gpuqueue.Amount(pod)
		if estimate := gputask.StartEstimateOf(pod); estimate != nil && asks.Position == 0 {
			asks.Position = int(estimate.Position)
		}
	}
	asks.Asked = queueing.Amounts{cmp.Or(gpuqueue.WantedModel(w.Pods[0]), queueing.AnyModel): amount}
	asks.Job = queueing.Job{Key: w.Unit.Key, Priority: w.Priority, Submitted: w.Since, GPUs: float64(amount) / float64(queueing.GPU)}
	return asks
}

// WaitingFor returns the entry of a task; nil if it does not wait.
func (v *View) WaitingFor(task *v1.TaskReference) *Waiting {
	for _, u := range v.byTask[types.NamespacedName{Namespace: task.Namespace, Name: task.Name}] {
		same := slices.ContainsFunc(u.Tasks, func(t *Task) bool { return t.Name == task.Name && (task.UID == "" || t.UID == task.UID) })
		if w := v.waitingOf(u); same && w != nil {
			return w
		}
	}
	return nil
}

func (v *View) waitingOf(u *Unit) *Waiting {
	w := &Waiting{Unit: u}
	placed := 0
	for _, m := range u.Members {
		switch {
		case m.Waits() && m.Task != nil && wantsToStart(m.Task.GPUTask):
			w.add(m, v.Now)
		case m.stays():
			placed++
		}
	}
	if len(w.Pods) == 0 {
		return nil
	}
	w.Gang, w.Err = v.gangOf(u, w.Pods, placed)
	return w
}

// wantsToStart reports whether a task should run but does not have enough running Pods.
func wantsToStart(task *v1.GPUTask) bool {
	return task.DeletionTimestamp == nil && task.Status.Phase == v1.PhasePending && !gputask.SuspensionRequested(task)
}

func (w *Waiting) add(m *Member, now time.Time) {
	created := m.Pod.CreationTimestamp.Time
	first := len(w.Pods) == 0
	if first || created.Before(w.Since) {
		w.Since = created
	}
	if waited := now.Sub(created); first || waited < w.Patient {
		w.Patient = waited
	}
	if first {
		w.Priority = schedulingv1.PodPriority(m.Pod)
		w.Task = *m.Unit.Tasks[0]
	}
	w.Priority = max(w.Priority, schedulingv1.PodPriority(m.Pod))
	w.Pods = append(w.Pods, m.Pod)
}

// gangOf returns what the engine has to place.
func (v *View) gangOf(u *Unit, pods []*corev1.Pod, placed int) (*snapshot.Members[*corev1.Pod], error) {
	if u.Err != nil {
		return nil, u.Err
	}
	if u.Gang != nil && len(pods)+placed < u.Gang.Min {
		return nil, fmt.Errorf("its gang has %d of the %d Pods that start together", len(pods)+placed, u.Gang.Min)
	}
	gang, err := snapshot.Waiting(v.Levels, pods, placed)
	if err != nil {
		return nil, err
	}
	if gang.Required && placed > 0 {
		gang.Within = v.DomainOf(u, gang.Level)
	}
	return gang, nil
}

// GangBeside returns the Pods of a unit for which stays is false as what the engine has to
// place, all of them, if the others stay where they are.
func (v *View) GangBeside(u *Unit, stays func(*Member) bool) (*snapshot.Members[*corev1.Pod], error) {
	var pods []*corev1.Pod
	rest := &Unit{Key: u.Key, Gang: u.Gang}
	for _, m := range u.Members {
		if stays(m) {
			rest.Members = append(rest.Members, m)
		} else {
			pods = append(pods, m.Pod)
		}
	}
	gang, err := v.gangOf(rest, pods, len(rest.Members))
	if err != nil {
		return nil, err
	}
	for i := range gang.Roles {
		gang.Roles[i].Min = gang.Roles[i].Max
	}
	return gang, nil
}

// DomainOf returns the single domain of a level that a unit's Pods are in; empty if they
// are in several or none.
func (v *View) DomainOf(u *Unit, level int) string {
	name := ""
	for _, m := range u.Members {
		node := v.nodes[m.Pod.Spec.NodeName]
		if node == nil {
			continue
		}
		described, _, _ := v.nodeView.Node(node) // the domains are valid even after an error
		if len(described.Domains) < level || described.Domains[level-1] == placement.Unnamed {
			return ""
		}
		domain := strings.Join(described.Domains[:level], "/")
		if name != "" && domain != name {
			return ""
		}
		name = domain
	}
	return name
}
