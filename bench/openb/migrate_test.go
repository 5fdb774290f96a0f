// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// spread places shares that fill two cards half, so that a whole one fits only after a
// move.
func spread(t *testing.T, budget float64) (*mover, *placement.Request) {
	t.Helper()
	e := &entrant{policy: ours, ties: byName, mix: learned}
	w := &workload{nodes: oneNode(2), pods: []dataset.Pod{share("a", 50), share("b", 50), {Name: "c", Milli: dataset.MilliPerCard, Shape: placement.Shape{CPU: 1000, GPUs: 1}}}}
	cluster, err := w.newCluster(e.newPolicy(w.pods, 1), []string{""})
	if err != nil {
		t.Fatal(err)
	}
	m := &mover{cluster: cluster, pods: w.pods, percent: budget, original: e.original, hopeless: map[*placement.Request]bool{}}
	for i := range 2 {
		place := placement.Place{Node: "node", Use: placement.Use{CPU: 1000, GPUs: []int{i}, Percent: 50}}
		if err := cluster.Place(placement.Pod{Name: podName(i, &w.pods[i]), Node: place.Node, Use: place.Use}); err != nil {
			t.Fatal(err)
		}
		m.records = append(m.records, newRecord(&w.pods[i], &place, e.original))
		m.placed++
	}
	return m, cluster.Request(w.pods[2].Shape)
}

func TestAPodIsMovedForOneThatWouldBeDropped(t *testing.T) {
	t.Parallel()
	m, request := spread(t, 50)
	place, found, err := m.makeRoom(request)
	if err != nil || !found || m.moved != 1 {
		t.Fatalf("found %v, %d moved, %v", found, m.moved, err)
	}
	m.records = append(m.records, newRecord(&m.pods[2], &place, m.original))
	if err := verifyMoved(oneNode(2), m.pods, m.records); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(m.records[0].GPUs) != fmt.Sprint(m.records[1].GPUs) {
		t.Errorf("the shares are on %v and %v", m.records[0].GPUs, m.records[1].GPUs)
	}
}

func TestNoPodIsMovedWithoutABudget(t *testing.T) {
	t.Parallel()
	m, request := spread(t, 49)
	if _, found, err := m.makeRoom(request); err != nil || found || m.moved > 0 {
		t.Errorf("found %v, %d moved, %v", found, m.moved, err)
	}
}
