// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAPodGoesWhereTheFewestGPUsAreLeft is the rule in the documents: of the nodes with m
// free cards, n of which are requested, the one with the smallest m − n.
func TestAPodGoesWhereTheFewestGPUsAreLeft(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		gpus int
		want string
	}{
		{1, "free-1"}, {2, "free-2"}, {3, "free-5"}, {5, "free-5"}, {6, "free-8"}, {8, "free-8"},
	} {
		t.Run(fmt.Sprintf("%d GPUs go to %s", test.gpus, test.want), func(t *testing.T) {
			t.Parallel()
			s := newSuite(t)
			for _, free := range []int{1, 2, 5, 8} {
				s.addNode(machine{name: fmt.Sprintf("free-%d", free), gpus: 8, nvlink: 8})
				s.occupy(fmt.Sprintf("free-%d", free), 8-free)
			}
			s.createPods(gang{name: "one", gpus: test.gpus})
			s.waitForBound(1, "one")
			if got := s.nodesOf("one"); got[0] != test.want {
				t.Errorf("is on %s", got[0])
			}
		})
	}
}

// occupy takes GPUs of a node.
func (s *suite) occupy(node string, gpus int) {
	s.Helper()
	if gpus == 0 {
		return
	}
	pod := s.podOf(gang{name: "occupies-" + node, gpus: gpus}, 0)
	pod.Spec.NodeSelector[corev1.LabelHostname] = s.node(node)
	s.createPod(pod)
	s.waitForBound(1, "occupies-"+node)
}

func TestSharesOfACardAddUpToACard(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 3})
	s.createTasks(
		gang{name: "a", percent: 46}, gang{name: "b", percent: 54}, gang{name: "c", percent: 60},
		gang{name: "d", percent: 60, duration: "300ms"}, gang{name: "e", percent: 40}, gang{name: "f", percent: 40},
	)
	s.waitForBound(1, "a", "b", "c", "e", "f")
	s.waitForEnd(1, "d")
	if held := s.ledger.heldCards(); held != 3 {
		t.Errorf("shares of 46, 54, 60, 40 and 40 %% and nothing else hold %d cards, want 3", held)
	}
	s.createTasks(gang{name: "whole"})
	s.waitForRefusal("whole", "1 GPU")
}

func TestGPUsComeFromOneNVLinkGroup(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 8, nvlink: 4})
	s.createPods(gang{name: "one"}, gang{name: "four", gpus: 4}, gang{name: "three", gpus: 3})
	s.waitForBound(1, "one", "four", "three")
	for _, name := range []string{"four", "three"} {
		groups := map[int]bool{}
		for _, index := range s.indicesOf(name) {
			groups[index/4] = true
		}
		if len(groups) != 1 {
			t.Errorf("%s has GPUs %v of %d NVLink groups", name, s.indicesOf(name), len(groups))
		}
	}
}

// indicesOf returns the indices of the GPUs that the Pods of a gang have.
func (s *suite) indicesOf(gang string) []int {
	s.Helper()
	var indices []int
	for _, pod := range s.ledger.podsOf(gang) {
		cards, err := cardsOf(pod)
		if err != nil {
			s.Fatal(err)
		}
		for _, card := range cards {
			index := 0
			if _, err := fmt.Sscan(card[strings.LastIndex(card, "-")+1:], &index); err != nil {
				s.Fatal(err)
			}
			indices = append(indices, index)
		}
	}
	slices.Sort(indices)
	return indices
}

func TestBrokenGPUsAreNotGiven(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 4, broken: []int{0, 2}})
	s.createPods(gang{name: "ok", gpus: 2})
	s.waitForBound(1, "ok")
	s.createPods(gang{name: "waits"})
	if got := s.indicesOf("ok"); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("has GPUs %v, want the healthy ones, 1 and 3", got)
	}
	s.waitForRefusal("waits", "1 GPU")
	healthy, err := s.inventoryOf(machine{name: "n", gpus: 4})
	if err != nil {
		t.Fatal(err)
	}
	s.patchNode("n", `{"metadata": {"annotations": {"falldio.com/gpu-inventory": %q}}}`, healthy)
	s.waitForBound(1, "waits")
}

// TestTwoProfilesOfOneSchedulerPackAndSpread uses both profiles of the shipped
// configuration side by side. It has a scheduler of its own: the policy learns what is usual from all
// requests, and where the last GPUs of a node are likely to be asked for, a Pod may go to another node.
func TestTwoProfilesOfOneSchedulerPackAndSpread(t *testing.T) {
	t.Parallel()
	c, err := startCluster("profiles", idleNode)
	if err != nil {
		t.Fatal(err)
	}
	c.stopAfter(t)
	s := newSuiteIn(t, c)
	s.addNodes(machines(4, machine{name: "n", gpus: 8})...)
	nodes := map[string]map[string]bool{"pack": {}, "spread": {}}
	place := func(kind string, g gang) {
		s.createPods(g)
		s.waitForBound(1, g.name)
		nodes[kind][s.nodesOf(g.name)[0]] = true
	}
	for i := range 4 {
		place("pack", gang{name: fmt.Sprintf("pack-%d", i), gpus: 2})
	}
	for i := range 3 {
		place("spread", gang{name: fmt.Sprintf("spread-%d", i), scheduler: gpuScheduler + "-spreading"})
	}
	if len(nodes["pack"]) != 1 || len(nodes["spread"]) != 3 {
		t.Errorf("4 pairs of GPUs are packed onto the nodes %v, want 1; 3 single ones are spread over %v, want 3", nodes["pack"], nodes["spread"])
	}
	// With a spreading profile, a gang is still a gang.
	s.createPods(gang{name: "gang", pods: 40, scheduler: gpuScheduler + "-spreading"})
	s.waitForRefusal("gang", "needs at once 40")
	s.waitForBound(0, "gang")
}
