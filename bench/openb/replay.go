// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// workload is the contents of the files.
type workload struct {
	nodes []placement.Node // by name
	pods  []dataset.Pod
	// capacity is the GPUs of all nodes, in percent of one.
	capacity int
}

func readWorkload(nodes, trace string) (*workload, error) {
	w := &workload{}
	var err error
	if w.nodes, err = dataset.ReadNodes(nodes); err != nil {
		return nil, fmt.Errorf("--nodes: %w", err)
	}
	if w.pods, err = dataset.ReadPods(trace); err != nil {
		return nil, fmt.Errorf("--trace: %w", err)
	}
	slices.SortFunc(w.nodes, func(a, b placement.Node) int { return cmp.Compare(a.Name, b.Name) })
	for i := range w.nodes {
		w.capacity += len(w.nodes[i].GPUs) * placement.Card
	}
	if w.capacity == 0 {
		return nil, fmt.Errorf("--nodes: %s: no node has a GPU", nodes)
	}
	if !slices.ContainsFunc(w.pods, func(p dataset.Pod) bool { return p.Milli > 0 }) {
		return nil, fmt.Errorf("--trace: %s: no Pod asks for a GPU", trace)
	}
	return w, nil
}

func (w *workload) arrivals(seed int64) order {
	return arrivals(w.pods, seed, len(w.nodes), w.capacity/placement.Card*dataset.MilliPerCard)
}

// outcome is the result of a replay.
type outcome struct {
	arrivals []dataset.Pod
	records  []record // one for each arrival
	// sums and counts are the allocation in percent, by rounded demand in percent.
	sums   map[int]float64
	counts map[int]int
	// moved is how many Pods were moved.
	moved int
}

// at returns the allocation in percent, averaged over the arrivals at a demand. Small
// traces skip demands: the last one before counts.
func (o *outcome) at(percent int) float64 {
	for ; percent >= 0; percent-- {
		if count := o.counts[percent]; count > 0 {
			return o.sums[percent] / float64(count)
		}
	}
	return 0
}

// replay submits the Pods of a seed one by one, without departures, and checks
// every placement.
func (w *workload) replay(e *entrant, seed int64) (*outcome, error) {
	o := w.arrivals(seed)
	p := e.newPolicy(w.pods, seed)
	cluster, err := w.newCluster(p, e.names(o.ranks))
	if err != nil {
		return nil, err
	}
	e.teach(p, cluster, w.pods, seed)
	result := &outcome{arrivals: o.pods, sums: map[int]float64{}, counts: map[int]int{}}
	m := &mover{cluster: cluster, pods: o.pods, percent: e.migrate, original: e.original, hopeless: map[*placement.Request]bool{}}
	arrived, used := 0, 0
	for i := range o.pods {
		request := cluster.Request(o.pods[i].Shape)
		if e.mix == learned {
			p.Learn(cluster, request)
		}
		arrived += request.Percent()
		place, found := cluster.Find(request, cluster.Root())
		if !found {
			if place, found, err = m.makeRoom(request); err != nil {
				return nil, err
			}
		}
		if found {
			used += request.Percent()
			m.placed++
			running := placement.Pod{Name: podName(i, &o.pods[i]), Node: place.Node, Use: place.Use}
			if err := cluster.Place(running); err != nil {
				return nil, err
			}
		}
		m.records = append(m.records, newRecord(&o.pods[i], &place, e.original))
		bucket := int(math.Round(100 * float64(arrived) / float64(w.capacity)))
		result.sums[bucket] += 100 * float64(used) / float64(w.capacity)
		result.counts[bucket]++
	}
	result.records, result.moved = m.records, m.moved
	check := verify
	if m.moved > 0 {
		check = verifyMoved
	}
	if err := check(w.nodes, o.pods, result.records); err != nil {
		return nil, fmt.Errorf("%s with seed %d: %w", e.policy, seed, err)
	}
	return result, nil
}

// newCluster returns the empty cluster, with prefixes before the names of its nodes.
func (w *workload) newCluster(p placement.Policy, names []string) (*placement.Cluster, error) {
	cluster := placement.NewCluster(p)
	for i, node := range w.nodes {
		node.Name = names[i] + node.Name //nolint:gosec // there is one for each
		if err := cluster.SetNode(node); err != nil {
			return nil, err
		}
	}
	return cluster, nil
}

// rankDigits is the length of the prefix that the published simulator puts before a name.
const rankDigits = len("0000-")

// names returns the prefixes of the names of the nodes.
func (e *entrant) names(ranks []int) []string {
	names := make([]string, len(ranks))
	if e.ties == byPublished {
		for i, rank := range ranks {
			names[i] = fmt.Sprintf("%04d-", rank)
		}
	}
	return names
}

// original returns a node's name in the files.
func (e *entrant) original(name string) string {
	if e.ties == byPublished && name != "" {
		return name[rankDigits:]
	}
	return name
}
