// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Waiting returns what the engine has to place for Pods without a node: those of one gang,
// of which placed others have a node, or a single Pod without a gang. An error names what
// is wrong with a Pod.
func Waiting(levels Levels, pods []*corev1.Pod, placed int) (*Members[*corev1.Pod], error) {
	need := 1
	shapes := make(map[*corev1.Pod]placement.Shape, len(pods))
	var gang *GangLabels
	for _, pod := range pods {
		shape, err := Shape(pod)
		if err != nil {
			return nil, fmt.Errorf("of Pod %s: %w", pod.Name, err)
		}
		shapes[pod] = shape
		if gang, err = Gang(pod); err != nil {
			return nil, fmt.Errorf("of Pod %s: %w", pod.Name, err)
		}
		if gang != nil {
			need = min(len(pods), max(1, gang.Min-placed))
		}
	}
	members := NewMembers(pods, func(pod *corev1.Pod) placement.Shape { return shapes[pod] }, nil, need)
	if gang != nil && gang.Level != "" {
		level, err := levels.Number(gang.Level)
		if err != nil {
			return nil, err
		}
		members.Level, members.Required = level, gang.Required
	}
	return members, nil
}
