// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import corev1 "k8s.io/api/core/v1"

// disruption says which PodDisruptionBudget forbids that the Pods of a unit leave
// together. Units move one after the other, each when the Pods of the one before run
// again, so that a budget need not suffice for a whole plan.
func (s *Scene) disruption(u *unit) string {
	pods := make([]*corev1.Pod, len(u.members))
	for i, m := range u.members {
		pods[i] = m.pod
	}
	return s.Disruptions.Forbids(pods)
}
