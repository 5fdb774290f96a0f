// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

const (
	// maxLives is how many Pods that are gone are remembered of a task, and maxTasks of how many tasks: the last ones.
	maxLives = 256
	maxTasks = 4096
)

// lives remembers what happened to tasks' Pods that are gone, as far as it was seen. It is safe for concurrent use.
type lives struct {
	mu     sync.Mutex
	byTask map[types.UID][]rows.Life
	// order are the tasks in the order in which they were first seen.
	order []types.UID
}

func newLives() *lives { return &lives{byTask: map[types.UID][]rows.Life{}} }

// add remembers a Pod that was deleted.
func (l *lives) add(pod *corev1.Pod, at metav1.Time) {
	owner, owned := gputask.OwnerOf(pod)
	if !owned {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known, found := l.byTask[owner.UID]
	if !found {
		if l.order = append(l.order, owner.UID); len(l.order) > maxTasks {
			delete(l.byTask, l.order[0])
			l.order = l.order[1:]
		}
	}
	known = append(known, rows.LifeOf(pod, &at))
	l.byTask[owner.UID] = known[max(0, len(known)-maxLives):]
}

// of returns what happened to the Pods of a task that are gone.
func (l *lives) of(task types.UID) []rows.Life {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.byTask[task])
}
