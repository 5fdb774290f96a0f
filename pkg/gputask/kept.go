// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// keptText returns which Pod still has its name although it has stopped, and who keeps it; "" if none has. The next one waits for that.
func (d *decision) keptText() string {
	for i := range d.members {
		m := &d.members[i]
		if m.pod != nil && !m.done() && d.isKept(m.pod) {
			return fmt.Sprintf("Pod %s is to be deleted and has stopped, but is kept by %s: the next one follows when it is gone", m.pod.Name, finalizersText(m.pod))
		}
	}
	return ""
}

// isKept reports whether nothing but finalizers keeps a Pod from being gone.
func (d *decision) isKept(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0 && !pod.DeletionTimestamp.After(d.Now) && !podfacts.HoldsNode(pod)
}

func finalizersText(pod *corev1.Pod) string {
	if len(pod.Finalizers) == 1 {
		return "the finalizer " + pod.Finalizers[0]
	}
	return "the finalizers " + strings.Join(pod.Finalizers, ", ")
}
