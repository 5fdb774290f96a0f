// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// keptText returns which Pod still has its name although it has stopped, and who keeps it; "" if none has. The next one waits for that.
func (d *decision) keptText() string {
	for _, m := range d.members {
		if m.pod != nil && !m.done() && d.isKept(m.pod) {
			return fmt.Sprintf("Pod %s is to be deleted and has stopped, but is kept by the %s %s: the next one follows when it is gone",
				m.pod.Name, plural.Verb(len(m.pod.Finalizers), "finalizer", "finalizers"), strings.Join(m.pod.Finalizers, ", "))
		}
	}
	return ""
}

// isKept reports whether nothing but finalizers keeps a Pod from being gone.
func (d *decision) isKept(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && len(pod.Finalizers) > 0 && !pod.DeletionTimestamp.After(d.Now) && !podfacts.HoldsNode(pod)
}
