// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// policy is a placement.Policy that may learn from arrivals.
type policy interface {
	placement.Policy
	Learn(cluster *placement.Cluster, r *placement.Request)
}

// outcome is what a replay found: allocation in percent by rounded demand.
type outcome struct {
	sums   map[int]float64
	counts map[int]int
}

func (o *outcome) at(percent int) float64 { return o.sums[percent] / float64(o.counts[percent]) }

func newCluster(nodes []placement.Node, p placement.Policy) (*placement.Cluster, int, error) {
	cluster := placement.NewCluster(p)
	capacity := 0
	for _, node := range nodes {
		capacity += len(node.GPUs) * placement.Card
		if err := cluster.SetNode(node); err != nil {
			return nil, 0, err
		}
	}
	return cluster, capacity, nil
}

// replay submits Pods one by one, without departures.
func replay(nodes []placement.Node, list []pod, p policy, note func(pod, *placement.Place)) (*outcome, error) {
	cluster, capacity, err := newCluster(nodes, p)
	if err != nil {
		return nil, err
	}
	result := &outcome{sums: map[int]float64{}, counts: map[int]int{}}
	arrived, used := 0, 0
	for i, one := range list {
		request := cluster.Request(one.shape)
		p.Learn(cluster, request)
		arrived += request.Percent()
		place, found := cluster.Find(request, cluster.Root())
		if found {
			used += request.Percent()
			running := placement.Pod{Name: fmt.Sprintf("%d/%s", i, one.name), Node: place.Node, Use: place.Use}
			if err := cluster.Place(running); err != nil {
				return nil, err
			}
			note(one, &place)
		} else {
			note(one, nil)
		}
		bucket := int(math.Round(100 * float64(arrived) / float64(capacity)))
		result.sums[bucket] += 100 * float64(used) / float64(capacity)
		result.counts[bucket]++
	}
	return result, nil
}
