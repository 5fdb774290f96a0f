// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// maxMovesEach is how many Pods may be moved for one that would otherwise be dropped.
const maxMovesEach = 2

// mover moves running Pods when one would be dropped, within a budget.
type mover struct {
	cluster *placement.Cluster
	pods    []dataset.Pod
	records []record
	// original is a node's name in the files.
	original func(string) string
	// percent is the budget, in percent of the placed Pods.
	percent float64
	placed  int
	moved   int
	// hopeless are requests for which no moves were found: nothing ends in this replay,
	// so there never will be any.
	hopeless map[*placement.Request]bool
}

// makeRoom moves Pods so that a request fits, and returns its place. found is false if
// that is impossible within the budget.
func (m *mover) makeRoom(request *placement.Request) (place placement.Place, found bool, err error) {
	budget := int(m.percent*float64(m.placed)/100) - m.moved
	if budget < 1 || request.Percent() == 0 || m.hopeless[request] {
		return placement.Place{}, false, nil
	}
	gang := &placement.Gang{Roles: []placement.Role{{Shape: request.Shape, Min: 1, Max: 1}}}
	plan, found, err := m.cluster.Consolidate(gang, placement.MoveRules{
		Shape: m.shape, MaxMoves: min(budget, maxMovesEach), PerMove: 1,
	})
	if err != nil || !found {
		m.hopeless[request] = budget >= maxMovesEach
		return placement.Place{}, false, err
	}
	if err := m.cluster.Carry(plan.Moves); err != nil {
		return placement.Place{}, false, err
	}
	for i := range plan.Moves {
		move := &plan.Moves[i]
		r := &m.records[m.index(move.Pod)]
		r.Node, r.GPUs = m.original(move.To.Node), move.To.GPUs
	}
	m.moved += len(plan.Moves)
	return plan.Plan.Members[0].Place, true, nil
}

// podName names the Pod that arrives as number index; mover.index parses it.
func podName(index int, p *dataset.Pod) string { return fmt.Sprintf("%d/%s", index, p.Name) }

func (m *mover) index(name string) int {
	number, _, _ := strings.Cut(name, "/")
	index, err := strconv.Atoi(number)
	if err != nil {
		return 0 // can't happen: the name comes from podName
	}
	return index
}

func (m *mover) shape(p *placement.Pod) placement.Shape { return m.pods[m.index(p.Name)].Shape }

// verifyMoved verifies that all Pods have room at their final places.
func verifyMoved(nodes []placement.Node, pods []dataset.Pod, records []record) error {
	left := newLedgers(nodes)
	for i := range records {
		if records[i].Node == "" {
			continue
		}
		if err := verifyRecord(left, &pods[i], &records[i]); err != nil {
			return fmt.Errorf("arrival %d, Pod %s: %w", i+1, pods[i].Name, err)
		}
	}
	return nil
}
