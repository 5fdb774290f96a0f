// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"
	"testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// cardsOfGangs returns the different cards that the Pods of some gangs have.
func (s *suite) cardsOfGangs(names ...string) []string {
	s.Helper()
	all := map[string]bool{}
	for _, name := range names {
		for _, pod := range s.ledger.podsOf(name) {
			cards, err := cardsOf(pod)
			if err != nil {
				s.Fatal(err)
			}
			for _, card := range cards {
				all[card] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// TestAnAssignmentOfACreatorIsNotBelieved creates gangs whose Pods come with an assignment: to a card that
// does not exist, or to one that another Pod has. While the first Pods of a gang wait for the others, kube-scheduler's
// snapshot shows them on their nodes as their creator has written them.
func TestAnAssignmentOfACreatorIsNotBelieved(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNodes(machine{name: "first", gpus: 4}, machine{name: "second", gpus: 4})
	s.createPods(gang{name: "before", pods: 1})
	s.waitForBound(1, "before")
	for name, card := range map[string]string{"of-nobody": "GPU-of-nobody", "of-others": s.cardsOfGangs("before")[0]} {
		g := gang{name: name, pods: 3}
		for index := range g.withDefaults(s).pods {
			pod := s.podOf(g, index)
			assignment := inventory.Assignment{}
			assignment.Add(pod.Spec.Containers[0].Name, string(v1.ResourceGPU), card)
			text, err := assignment.String()
			if err != nil {
				t.Fatal(err)
			}
			pod.Annotations[inventory.AssignmentAnnotation] = text
			s.createPod(pod)
		}
		s.waitForBound(3, name)
	}
	if cards := s.cardsOfGangs("before", "of-nobody", "of-others"); len(cards) != 7 {
		t.Errorf("7 Pods have the cards %v", cards)
	}
}
