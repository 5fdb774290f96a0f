// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

// unlimitedText says that nothing limits Pods that run to their shares of GPUs; it is empty if
// nobody knows of such Pods. It continues a sentence about the task.
func (d *decision) unlimitedText() string {
	unlimited := d.countMembers(func(m *member) bool { return m.runs() && isUnlimited(m.pod) })
	switch {
	case unlimited == 0:
		return ""
	case len(d.members) == 1:
		return "; nothing limits it to its share of the GPU"
	case unlimited == d.running():
		return "; nothing limits its Pods to their shares of GPUs"
	default:
		return fmt.Sprintf("; nothing limits %d of its Pods to their shares of GPUs", unlimited)
	}
}

// isUnlimited reports whether the node agent has stated that nothing limits a container of a
// Pod to its share of a GPU.
func isUnlimited(pod *corev1.Pod) bool {
	text := pod.Annotations[inventory.AssignmentAnnotation]
	if text == "" {
		return false
	}
	assignment, err := inventory.ParseAssignment(text)
	if err != nil {
		return false // not for the controller to report
	}
	return slices.Contains(slices.Collect(maps.Values(assignment.Enforcement)), inventory.EnforcementNone)
}
