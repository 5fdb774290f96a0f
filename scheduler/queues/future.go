// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"cmp"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// Future returns what is known of the time to come, and what the running jobs hold, in percent of a GPU.
func (l *Line) Future(state *State, waiting []Place, now time.Time) (in *outlook.Input, held map[string]int) {
	held = map[string]int{}
	in = &outlook.Input{
		Now: now, Booked: l.Args.Reservations, Draws: min(max(drawnStarts/max(len(waiting), 1), fewestDraws), mostDraws),
		Seed: uint64(now.Unix()), //nolint:gosec // after 1970
	}
	random := rand.New(rand.NewPCG(in.Seed, 0)) //nolint:gosec // simulation
	var nodes []mirror.GPUNode
	var holdings []mirror.Holding
	l.Mirror.With(func(*placement.Cluster) { nodes, holdings = l.Mirror.GPUNodes(), l.Mirror.HoldingPods() })
	index := map[nodePart]int{}
	for i, node := range nodes {
		index[nodePart{node.Name, node.Slices}] = i
		// Only who asks for a profile gets its slices, so that it is like a model.
		in.Nodes = append(in.Nodes, outlook.Node{Model: cmp.Or(node.Slices, node.Model), Percent: node.Percent, Apart: node.Slices != ""})
	}
	in.Running = l.runningUntil(state, holdings, index, random, now)
	for i := range waiting {
		in.Waiting = append(in.Waiting, l.waitingFor(state, &waiting[i], random))
	}
	in.Scenarios = l.scenarios(state, random, now)
	for i := range in.Running {
		for _, hold := range in.Running[i].Holds {
			held[in.Running[i].Key] += hold.Percent
		}
	}
	return in, held
}

// nodePart is a node's GPUs, or its MIG slices that a resource counts.
type nodePart struct{ node, slices string }

// runningUntil returns what runs, given what Pods hold, for how long it may go on; index has the positions of the
// nodes.
func (l *Line) runningUntil(state *State, holdings []mirror.Holding, index map[nodePart]int, random *rand.Rand, now time.Time) []outlook.Running {
	assigned := RunningPods{State: state}
	var jobs []outlook.Running
	known := map[string]int{}
	for i := range holdings {
		holding := &holdings[i]
		node, usable := index[nodePart{holding.Node, holding.Slices}]
		if !usable {
			continue
		}
		key := jobOf(l.Registry.GangOf(types.UID(holding.Name)), holding.Pod)
		at, found := known[key]
		if !found {
			at = len(jobs)
			known[key] = at
			jobs = append(jobs, outlook.Running{Key: key, Duration: l.book.drawn(state, assigned.QueueOf(holding.Pod), holding.Pod, startOf(holding.Pod, now), random, now)})
		}
		jobs[at].Holds = append(jobs[at].Holds, outlook.Hold{Node: node, Percent: holding.Percent})
	}
	return jobs
}

func (l *Line) waitingFor(state *State, place *Place, random *rand.Rand) outlook.Waiting {
	now := l.Clock.Now()
	job := outlook.Waiting{Key: place.Key, Queue: place.queue, Turn: place.turn, Duration: l.book.drawn(state, place.queue, place.Leader, now, random, now)}
	if attempt := l.Registry.Look(place.Leader.UID); attempt != nil {
		job.Needs = needsOf(attempt)
	}
	return job
}

// needsOf returns what a gang needs to start.
func needsOf(attempt *gangs.Attempt) []outlook.Need {
	var needs []outlook.Need
	for _, m := range attempt.Waiting[:attempt.Need] {
		need := outlook.Need{Members: 1, Percent: m.Shape.Percent(), Models: m.Shape.Models}
		if slices := snapshot.SliceResource(&m.Shape); slices != "" {
			need.Percent, need.Models = snapshot.GPUPercent(&m.Shape), []string{slices}
		}
		if last := len(needs) - 1; last >= 0 && sameNeed(&needs[last], &need) {
			needs[last].Members++
		} else {
			needs = append(needs, need)
		}
	}
	return needs
}

func sameNeed(a, b *outlook.Need) bool {
	return a.Percent == b.Percent && len(a.Models) == len(b.Models) && (len(a.Models) == 0 || a.Models[0] == b.Models[0])
}

// drawn returns for how long a Pod runs that has begun at a time. The draws are made now: what is known of other
// Pods may change while they are used.
func (b *queueBook) drawn(state *State, queue string, pod *corev1.Pod, began time.Time, random *rand.Rand, now time.Time) outlook.Duration {
	elapsed := now.Sub(began)
	b.mu.Lock()
	defer b.mu.Unlock()
	estimate := b.estimate(state, queue, pod)
	return durationOf(&estimate, elapsed, random)
}

// durationOf returns for how long something runs that has run for some time.
func durationOf(estimate *runtimes.Estimate, elapsed time.Duration, random *rand.Rand) outlook.Duration {
	if estimate.Unknown() {
		assumed := runtimes.Extended(assumedRuntime, elapsed, assumedRuntime)
		return outlook.Duration{Draw: func(*rand.Rand) time.Duration { return assumed - elapsed }, Assumed: assumed}
	}
	return outlook.Duration{
		Draw: prepared(estimate, elapsed, random), Bound: boundAfter(estimate, elapsed), Rough: estimate.Rough() || estimate.Outlived(elapsed),
	}
}

func prepared(estimate *runtimes.Estimate, elapsed time.Duration, random *rand.Rand) func(*rand.Rand) time.Duration {
	var list [mostDraws]time.Duration
	for i := range list {
		list[i] = max(estimate.Draw(random, elapsed)-elapsed, backfill.MinimumRemaining)
	}
	next := 0
	return func(*rand.Rand) time.Duration {
		next = (next + 1) % len(list)
		return list[next]
	}
}

func boundAfter(estimate *runtimes.Estimate, elapsed time.Duration) time.Duration {
	_, longest := estimate.Remaining(elapsed)
	return longest
}
