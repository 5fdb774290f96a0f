// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"time"
)

// Claims are how gpu-scheduler kept gangs from starving before it had queues: who has waited
// the longest claims the nodes on which the fewest GPUs have to become free. Nobody who comes
// later gets a place there for ten minutes; then all nodes are free to all for as long.
// (gpu-scheduler renewed a claim whenever a GPU had become free on its nodes, and let several
// gangs claim nodes at a time. Here that makes large gangs wait a third as long, and all jobs
// together more than twice as long.)
const (
	starvation = 5 * time.Minute
	claimTime  = 10 * time.Minute
	mostClaims = 1
)

type claims struct {
	byJob map[string]*claim
	// pause is until when nobody may claim nodes.
	pause time.Time
}

type claim struct {
	job   *job
	nodes []string
	until time.Time
}

func newClaims() claims {
	return claims{byJob: map[string]*claim{}}
}

// wake returns when the next claim ends; zero if there is none.
func (c *claims) wake() (at time.Time) {
	for _, one := range c.byJob {
		if at.IsZero() || one.until.Before(at) {
			at = one.until
		}
	}
	return at
}

// serveWithClaims starts all of some jobs that fit beside the claims of those before them.
func (s *system) serveWithClaims(jobs []*job) error {
	s.expireClaims()
	refused := map[class]bool{}
	for _, j := range slices.Clone(jobs) {
		if s.used == s.capacity() {
			break
		}
		kind := class{j.request, j.members}
		if refused[kind] {
			continue
		}
		j.gang.Except = s.claimed.against(j)
		started, err := s.tryNow(j)
		j.gang.Except = nil
		if err != nil {
			return err
		}
		if started {
			delete(s.claimed.byJob, j.key)
			continue
		}
		refused[kind] = s.claimed.byJob[j.key] == nil // others of its kind lack what it claims
	}
	s.claim()
	return nil
}

// against returns the nodes that are claimed by jobs before one.
func (c *claims) against(j *job) (nodes []string) {
	for _, one := range c.byJob {
		if one.job != j && before(one.job, j) < 0 {
			nodes = append(nodes, one.nodes...)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// expireClaims ends claims whose time is over.
func (s *system) expireClaims() {
	for key, one := range s.claimed.byJob {
		if !one.until.After(s.now) {
			delete(s.claimed.byJob, key)
			s.claimed.pause = s.now.Add(claimTime)
		}
	}
}

// claim lets jobs that have waited for long claim nodes.
func (s *system) claim() {
	if s.now.Before(s.claimed.pause) {
		return
	}
	for _, j := range s.line.jobs {
		if s.now.Sub(j.Submitted) < starvation || len(s.claimed.byJob) >= mostClaims {
			break // the line is by submission
		}
		if s.claimed.byJob[j.key] != nil {
			continue
		}
		var taken []string
		for _, one := range s.claimed.byJob {
			taken = append(taken, one.nodes...)
		}
		if len(taken) == s.nodes {
			break
		}
		if nodes := s.leastLacking(j, taken); nodes != nil {
			s.claimed.byJob[j.key] = &claim{job: j, nodes: nodes, until: s.now.Add(claimTime)}
		}
	}
}

// leastLacking returns the nodes on which the fewest GPUs have to become free for a job; nil
// if there are too few nodes.
func (s *system) leastLacking(j *job, except []string) (nodes []string) {
	type candidate struct {
		name    string
		lacking int
	}
	var list []candidate
	for name, holders := range s.holders {
		if slices.Contains(except, name) {
			continue
		}
		free := 0
		for _, holder := range holders {
			if holder == "" {
				free++
			}
		}
		list = append(list, candidate{name, max(0, j.request.GPUs-free)})
	}
	if len(list) < j.members {
		return nil
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.lacking, b.lacking), cmp.Compare(a.name, b.name))
	})
	for _, one := range list[:j.members] {
		nodes = append(nodes, one.name)
	}
	return nodes
}
