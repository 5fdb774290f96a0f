// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// shadowsFor returns what must stay free for others while a place is looked for: what is reserved
// from a time on at which the gang may still run. It is nil if nothing is reserved.
func (p *Planner) shadowsFor(attempt *gangs.Attempt) func(*placement.Cluster) []placement.Pod {
	others, _ := p.ahead.before(attempt.Group.Key)
	if len(others) == 0 {
		return nil
	}
	bound, now := p.boundOf(attempt), p.clock.Now()
	return func(cluster *placement.Cluster) []placement.Pod { return backfill.Shadows(cluster, others, now, bound) }
}

// shadowKey returns a key for shadowsFor.
func (p *Planner) shadowKey(attempt *gangs.Attempt) string {
	others, key := p.ahead.before(attempt.Group.Key)
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d", key, p.boundOf(attempt))
}

// boundOf returns for how long a gang runs at most, as far as is known; 0 if it is not.
func (p *Planner) boundOf(attempt *gangs.Attempt) time.Duration {
	if place, waits := p.line.of(attempt.Group.Key); waits {
		return place.runtime.Longest()
	}
	state := p.queueState()
	if state == nil {
		return 0
	}
	pod := attempt.Waiting[0].Pod()
	return p.runtimeOf(state, state.QueueOf(pod).Queue, pod).Longest()
}

// jobName names a job to the owner of Pods of a namespace, with the GPUs that it has, in percent of one. What runs in
// other namespaces is not to be seen there.
func (p *Planner) jobName(job, namespace string, held map[string]int) string {
	percent := held[job]
	if place, waits := p.line.of(job); waits {
		job, percent = jobOf(p.registry.GangOf(place.Leader.UID), place.Leader), place.Percent
	}
	of, name, _ := strings.Cut(job, "/")
	if of != namespace {
		name = "work of another namespace"
	}
	if percent == 0 {
		return name
	}
	return name + " (" + gpusOf(percent) + ")"
}
