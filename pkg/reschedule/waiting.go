// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Waiting is a task whose Pods wait for a node.
type Waiting struct {
	// Task is the first of those that make up the gang; mostly there is one.
	Task Task
	// Pods are those without a node, whichever of the gang's tasks they are of.
	Pods []*corev1.Pod
	// Gang is what has to be placed; nil if there is an Err.
	Gang     *snapshot.Members[*corev1.Pod]
	Priority int32
	// Since is when the oldest of the Pods was created: the order of the queue.
	Since time.Time
	// Patient is how long all of the Pods have waited.
	Patient time.Duration
	// Err is why it can't be placed at all: the gang is not complete, or asks for
	// what there is not.
	Err error

	unit *unit
}

// Waiting returns the tasks whose Pods wait for a node, in the scheduler's order: by
// priority, then by age.
func (s *Scene) Waiting() []Waiting {
	var list []Waiting
	for _, u := range s.units {
		if w := s.waitingOf(u); w != nil {
			list = append(list, *w)
		}
	}
	slices.SortStableFunc(list, func(a, b Waiting) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), a.Since.Compare(b.Since), cmp.Compare(a.unit.key, b.unit.key))
	})
	return list
}

func (s *Scene) waitingOf(u *unit) *Waiting {
	w := &Waiting{unit: u}
	placed := 0
	for _, m := range u.members {
		switch {
		case m.waits() && m.task != nil && wantsToStart(m.task.GPUTask):
			w.add(m, s.Now)
		case m.pod.Spec.NodeName != "" && m.pod.DeletionTimestamp == nil:
			placed++
		}
	}
	if len(w.Pods) == 0 {
		return nil
	}
	w.Gang, w.Err = s.gangOf(u, w.Pods, placed)
	return w
}

// wantsToStart reports whether a task too few Pods of run.
func wantsToStart(task *v1.GPUTask) bool {
	return task.DeletionTimestamp == nil && task.Status.Phase == v1.PhasePending && !gputask.SuspensionRequested(task)
}

func (w *Waiting) add(m *member, now time.Time) {
	created := m.pod.CreationTimestamp.Time
	first := len(w.Pods) == 0
	if first || created.Before(w.Since) {
		w.Since = created
	}
	if waited := now.Sub(created); first || waited < w.Patient {
		w.Patient = waited
	}
	if first {
		w.Priority = priorityOf(m.pod)
		w.Task = *m.unit.tasks[0]
	}
	w.Priority = max(w.Priority, priorityOf(m.pod))
	w.Pods = append(w.Pods, m.pod)
}

// gangOf returns what the engine has to place.
func (s *Scene) gangOf(u *unit, pods []*corev1.Pod, placed int) (*snapshot.Members[*corev1.Pod], error) {
	if u.err != nil {
		return nil, u.err
	}
	if u.gang != nil && len(pods)+placed < u.gang.Min {
		return nil, fmt.Errorf("its gang has %d of the %d Pods that start together", len(pods)+placed, u.gang.Min)
	}
	gang, err := snapshot.Waiting(s.Levels, pods, placed)
	if err != nil {
		return nil, err
	}
	if gang.Required && placed > 0 {
		gang.Within = s.domainOf(u, gang.Level)
	}
	return gang, nil
}

// domainOf is the one domain of a level that a unit's Pods are in; empty if they are
// in several or none.
func (s *Scene) domainOf(u *unit, level int) string {
	name := ""
	for _, m := range u.members {
		node := s.nodes[m.pod.Spec.NodeName]
		if node == nil {
			continue
		}
		described, _, _ := s.view.Node(node) // its domains are told in any case
		if len(described.Domains) < level {
			return ""
		}
		its := strings.Join(described.Domains[:level], "/")
		if name != "" && its != name {
			return ""
		}
		name = its
	}
	return name
}
