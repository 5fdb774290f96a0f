// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill_test

import (
	"fmt"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

var now = time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)

// site is a cluster with jobs.
type site struct {
	backfill.Input
	t *testing.T
}

// newSite returns a site with nodes n0, n1, … of 8 GPUs and 64 cores.
func newSite(t *testing.T, nodes int) *site {
	t.Helper()
	s := &site{t: t}
	s.Cluster, s.Now = placement.NewCluster(packing.New(packing.Default())), now
	for i := range nodes {
		s.node(fmt.Sprintf("n%d", i))
	}
	return s
}

func (s *site) node(name string) {
	s.t.Helper()
	n := placement.Node{Name: name, CPU: 64000, Memory: 512000, Slots: 100, Model: "h100"}
	for range 8 {
		n.GPUs = append(n.GPUs, placement.GPU{Memory: 80000, Group: -1, NUMA: -1})
	}
	if err := s.Cluster.SetNode(n); err != nil {
		s.t.Fatal(err)
	}
}

// runs adds a job with a Pod on some GPUs of a node; it ends after some minutes, 0 is
// unknown.
func (s *site) runs(key, node string, minutes int, gpus ...int) {
	s.t.Helper()
	use := placement.Use{CPU: int64(len(gpus)) * 1000, Memory: 1000, GPUs: gpus, Percent: placement.Card}
	s.holds(key, node, minutes, use)
}

func (s *site) holds(key, node string, minutes int, use placement.Use) {
	s.t.Helper()
	pod := fmt.Sprintf("%s-%s", key, node)
	if err := s.Cluster.Place(placement.Pod{Name: pod, Node: node, Use: use}); err != nil {
		s.t.Fatal(err)
	}
	job := backfill.Running{Key: key, Pods: []string{pod}}
	if minutes > 0 {
		job.Ends = now.Add(time.Duration(minutes) * time.Minute)
	}
	s.Running = append(s.Running, job)
}

// waits adds a job with members that need some GPUs each, and runs for some minutes, 0 is
// unknown.
func (s *site) waits(key string, members, gpus, minutes int) {
	s.needs(key, members, minutes, placement.Shape{CPU: 1000 * int64(gpus), Memory: 1000, GPUs: gpus})
}

func (s *site) needs(key string, members, minutes int, shape placement.Shape) {
	s.Waiting = append(s.Waiting, backfill.Waiting{
		Key: key, Bound: time.Duration(minutes) * time.Minute,
		Gang: &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: members, Max: members}}},
	})
}

// minutes returns after how many minutes a booking begins; -1 for none.
func minutes(r *backfill.Booking) int {
	if r.Plan == nil {
		return -1
	}
	return int(r.From.Sub(now) / time.Minute)
}

var all = []int{0, 1, 2, 3, 4, 5, 6, 7}

func (s *site) plan() []backfill.Booking { return backfill.Plan(&s.Input) }
