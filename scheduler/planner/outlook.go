// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// shadowsFor returns what must stay free for others while a place is looked for: what is reserved
// from a time on at which the gang may still run. It is nil if nothing is reserved.
func (p *Planner) shadowsFor(attempt *gangs.Attempt) func(*placement.Cluster) []placement.Pod {
	others, _ := p.ahead.others(attempt.Group.Key)
	if len(others) == 0 {
		return nil
	}
	bound, now := p.boundOf(attempt), p.clock.Now()
	return func(cluster *placement.Cluster) []placement.Pod { return backfill.Shadows(cluster, others, now, bound) }
}

// shadowKey returns a key for shadowsFor.
func (p *Planner) shadowKey(attempt *gangs.Attempt) string {
	others, key := p.ahead.others(attempt.Group.Key)
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

// outlookPause is after how long a gang is tried again that is new to the line.
const outlookPause = 2 * time.Second

// awaitsOutlook reports whether a gang is about to get its place in the line, or a reservation.
func (p *Planner) awaitsOutlook(attempt *gangs.Attempt) bool {
	if p.queueState() == nil {
		return false
	}
	place, waits := p.line.of(attempt.Group.Key)
	return !waits || !place.Tried
}

// outlookOf tells the gang's owner about its place in the queue, and when it is expected to start.
func (p *Planner) outlookOf(attempt *gangs.Attempt) string {
	place, waits := p.line.of(attempt.Group.Key)
	if !waits {
		return ""
	}
	text := "; " + ordinal(place.position+1) + " in its queue"
	if place.queue != queueing.NoQueue {
		text = "; " + ordinal(place.position+1) + " in queue " + place.queue
	}
	reservation, reserved := p.ahead.of(attempt.Group.Key)
	if !reserved || reservation.StartsBy(p.clock.Now()) {
		return text
	}
	text += "; expected to start by " + clockTime(roundUp(reservation.From))
	if behind := reservation.Behind; behind != "" {
		text += ", when " + p.jobName(behind, attempt.Waiting[0].Pod().Namespace) + " ends"
	}
	return text
}

// roundUp rounds a time up to five minutes: messages that change all the time cost writes.
func roundUp(at time.Time) time.Time {
	const step = 5 * time.Minute
	if rounded := at.Truncate(step); rounded.Before(at) {
		return rounded.Add(step)
	}
	return at
}

// jobName names a job to the owner of Pods of a namespace. What runs in other namespaces is not to
// be seen there.
func (p *Planner) jobName(job, namespace string) string {
	if place, waits := p.line.of(job); waits {
		job = jobOf(p.registry.GangOf(place.Leader.UID), place.Leader)
	}
	if of, name, cut := strings.Cut(job, "/"); cut && of == namespace {
		return name
	}
	return "work of another namespace"
}

// ordinal returns "1st", "2nd", "3rd", "4th" …
func ordinal(number int) string {
	switch {
	case number%100/10 == 1:
		return fmt.Sprintf("%dth", number)
	case number%10 == 1:
		return fmt.Sprintf("%dst", number)
	case number%10 == 2:
		return fmt.Sprintf("%dnd", number)
	case number%10 == 3:
		return fmt.Sprintf("%drd", number)
	default:
		return fmt.Sprintf("%dth", number)
	}
}
