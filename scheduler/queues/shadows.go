// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Shadows returns what must stay free for others while a place is looked for: what is reserved
// from a time on at which the gang may still run. It is nil if nothing is reserved.
func (l *Line) Shadows(attempt *gangs.Attempt) func(*placement.Cluster) []placement.Pod {
	others, _ := l.ahead.before(attempt.Group.Key)
	if len(others) == 0 {
		return nil
	}
	bound, now := l.boundOf(attempt), l.Clock.Now()
	return func(cluster *placement.Cluster) []placement.Pod { return backfill.Shadows(cluster, others, now, bound) }
}

// ShadowKey returns a key for Shadows.
func (l *Line) ShadowKey(attempt *gangs.Attempt) string {
	others, key := l.ahead.before(attempt.Group.Key)
	if len(others) == 0 {
		return ""
	}
	return fmt.Sprintf("%s %d", key, l.boundOf(attempt))
}

// boundOf returns for how long a gang runs at most, as far as is known; 0 if it is not.
func (l *Line) boundOf(attempt *gangs.Attempt) time.Duration {
	if place, waits := l.order.of(attempt.Group.Key); waits {
		return place.runtime.Longest()
	}
	state := l.State()
	if state == nil {
		return 0
	}
	return l.Runtime(state, attempt.Waiting[0].Pod()).Longest()
}

// jobName names a job to the owner of Pods of a namespace, with the GPUs that it has, in percent of one. What runs in
// other namespaces is not to be seen there.
func (l *Line) jobName(job, namespace string, held map[string]int) string {
	percent := held[job]
	if place, waits := l.order.of(job); waits {
		job, percent = jobOf(l.Registry.GangOf(place.Leader.UID), place.Leader), place.Percent
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
