// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
)

// know records the entry of a Pod.
func (m *Mirror) know(uid types.UID, e *entry) {
	if m.pods[uid] == e {
		m.count(e, -1) // it may hold something else than before
		m.count(e, 1)
		return
	}
	m.forget(uid)
	m.pods[uid] = e
	e.priority = schedulingv1.PodPriority(e.pod)
	m.priorities[e.priority]++
	m.count(e, 1)
}

// forget drops the entry of a Pod, if there is one.
func (m *Mirror) forget(uid types.UID) {
	e := m.pods[uid]
	if e == nil {
		return
	}
	delete(m.pods, uid)
	if e.elsewhere != nil {
		e.elsewhere.generation = 0
	}
	m.count(e, -1)
	if m.priorities[e.priority]--; m.priorities[e.priority] == 0 {
		delete(m.priorities, e.priority)
	}
}

// HasBelow reports whether any Pod of a lower priority holds something. Priorities are few,
// however many Pods there are.
func (m *Mirror) HasBelow(priority int32) bool {
	m.state.RLock()
	defer m.state.RUnlock()
	for other := range m.priorities {
		if other < priority {
			return true
		}
	}
	return false
}
