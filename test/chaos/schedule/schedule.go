// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedule draws from a seed what happens in a campaign, and when: the same seed gives the
// same schedule. It is pure.
package schedule

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/check"
)

// Fault is something to inject.
type Fault struct {
	// At is when it begins, from the beginning of the campaign, and For how long it lasts.
	At, For time.Duration
	// Kind is one of package check.
	Kind string
	// Target is the process, node, namespace or CRD.
	Target string
	// Way is how responses fail: WayDrop and so on; or what is known of the containers of a node after a reboot:
	// WayNotFound or WayEnded.
	Way string
	// Number is the GPU that breaks, or how many objects are in the flood.
	Number int
	// Skew is by how much the clock of the process is ahead.
	Skew time.Duration
}

// The ways in which requests to the API server fail.
const (
	// WayDrop: the connection breaks before the request has reached the API server.
	WayDrop = "drop"
	// WayLose: the request is carried out, and the connection breaks before the response.
	WayLose = "lose the response"
	// WayError: the API server answers with an error, and has done nothing.
	WayError = "error"
	// WayDelay: the request, or its response, arrives late.
	WayDelay = "delay"
	// WayDouble: the request arrives twice, and the second response counts.
	WayDouble = "double"
)

const (
	// WayNotFound means that the kubelet does not find the containers any more.
	WayNotFound = "containers not found"
	// WayEnded means that the runtime finds that they have ended, and not how.
	WayEnded = "containers ended"
)

// String describes the fault in one line.
func (f *Fault) String() string {
	text := fmt.Sprintf("%7.1fs %-17s %s", f.At.Seconds(), f.Kind, f.Target)
	if detail := f.Detail(); detail != "" {
		text += ", " + detail
	}
	if f.For > 0 {
		text += fmt.Sprintf(", for %.1fs", f.For.Seconds())
	}
	return text
}

// Detail says in what way it is injected.
func (f *Fault) Detail() string {
	switch f.Kind {
	case check.FaultResponses, check.FaultReboot:
		return f.Way
	case check.FaultSkew:
		return fmt.Sprintf("by %v", f.Skew)
	case check.FaultGPU:
		return fmt.Sprintf("GPU %d", f.Number)
	case check.FaultFlood:
		return fmt.Sprintf("%d objects", f.Number)
	default:
		return ""
	}
}

// Cluster is what faults can be injected into.
type Cluster struct {
	// Processes can be killed and paused; those behind a proxy can have a skewed clock, and requests
	// that fail.
	Processes, Proxied []string
	// Successor is a process that is killed right after the first storm, when there is much to take over.
	Successor string
	// Nodes may be disturbed. GPUs is how many each has.
	Nodes []string
	GPUs  int
	// Namespaces and CRDs may be deleted.
	Namespaces, CRDs []string
	// FullDisk is true if a disk can be filled.
	FullDisk bool
}

// Options say how much happens.
type Options struct {
	Seed uint64
	// Duration is that of the campaign with load. Faults are injected in the first FaultShare of it.
	Duration time.Duration
	// Flood is how many fuzzed objects come in all.
	Flood int
}

const (
	// FaultShare is the part of a campaign in which faults are injected; in the rest the cluster has to
	// work under load alone.
	FaultShare = 0.75
	// storm and lull alternate: in a lull nothing is injected, so that limits of time are put to the test
	// as well. Every third lull is longer than the longest limit, so that one that is exceeded
	// after a storm is noticed before the next one disturbs it again.
	storm, lull, longLull = 30 * time.Second, 25 * time.Second, 75 * time.Second
	longLullEvery         = 3
	// firstStorm is when the first storm begins.
	firstStorm = 3 * time.Second
	// pause is the mean time between two faults of a storm.
	pause = 2500 * time.Millisecond
)

// Faults returns the faults of a campaign in the order in which they begin.
func Faults(options Options, cluster *Cluster) []Fault {
	random := rand.New(rand.NewPCG(options.Seed, 1)) //nolint:gosec // a campaign has to be repeatable
	end := time.Duration(FaultShare * float64(options.Duration))
	d := &drawer{random: random, cluster: cluster, busy: map[string]time.Duration{}}
	var all []Fault
	for begin, number := firstStorm, 1; begin < end; begin, number = begin+storm+lullAfter(number), number+1 {
		stop := min(begin+storm, end)
		if fault, drawn := d.drawPartition(begin, stop); drawn {
			all = append(all, fault)
		}
		for at := begin; at < stop; at += d.between(0, 2*pause) {
			if fault, drawn := d.draw(at, stop); drawn {
				all = append(all, fault)
			}
		}
	}
	all = append(all, rare(options, cluster, random, end)...)
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return all
}

// lullAfter returns how long the lull after a storm is; the first storm is number 1.
func lullAfter(number int) time.Duration {
	if number%longLullEvery == 0 {
		return longLull
	}
	return lull
}

// rare returns the faults that happen once: a deleted CRD, a deleted namespace, a flood, and the end of one process.
func rare(options Options, cluster *Cluster, random *rand.Rand, end time.Duration) []Fault {
	within := func(from, to float64) time.Duration {
		return time.Duration((from + (to-from)*random.Float64()) * float64(end))
	}
	var all []Fault
	if len(cluster.CRDs) > 0 {
		all = append(all, Fault{At: within(0.55, 0.7), For: 5 * time.Second, Kind: check.FaultCRD, Target: cluster.CRDs[random.IntN(len(cluster.CRDs))]})
	}
	if len(cluster.Namespaces) > 0 {
		all = append(all, Fault{At: within(0.3, 0.5), Kind: check.FaultNamespace, Target: cluster.Namespaces[random.IntN(len(cluster.Namespaces))]})
	}
	if options.Flood > 0 {
		all = append(all, Fault{At: within(0.1, 0.3), Kind: check.FaultFlood, Target: "fuzzed", Number: options.Flood})
	}
	if at := firstStorm + storm + time.Second; cluster.Successor != "" && at < end {
		all = append(all, Fault{At: at, For: time.Second, Kind: check.FaultKill, Target: cluster.Successor})
	}
	return all
}

// drawer draws faults. It remembers until when each target is disturbed: two faults of one node or
// process would hide each other.
type drawer struct {
	random  *rand.Rand
	cluster *Cluster
	busy    map[string]time.Duration
}

func (d *drawer) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.random.Int64N(int64(max(1, most-least))))
}

// draw returns a fault that begins at a time and ends before the storm does, if its target is not
// disturbed already.
func (d *drawer) draw(at, stop time.Duration) (Fault, bool) {
	fault := Fault{At: at}
	switch dice := d.random.IntN(100); {
	case dice < 25:
		fault.Kind, fault.Target = check.FaultKill, pick(d.random, d.cluster.Processes)
		fault.For = time.Second
	case dice < 35:
		fault.Kind, fault.Target = check.FaultPause, pick(d.random, d.cluster.Processes)
		fault.For = d.between(time.Second, 8*time.Second)
	case dice < 55:
		fault.Kind, fault.Target = check.FaultResponses, pick(d.random, d.cluster.Proxied)
		fault.Way = pick(d.random, []string{WayDrop, WayLose, WayError, WayDelay, WayDouble})
		fault.For = d.between(3*time.Second, 10*time.Second)
	case dice < 60:
		fault.Kind, fault.Target = check.FaultSkew, pick(d.random, d.cluster.Proxied)
		fault.Skew = d.between(-60*time.Second, 60*time.Second).Round(time.Second)
		fault.For = d.between(5*time.Second, 12*time.Second)
	case dice < 63 && d.cluster.FullDisk:
		fault.Kind, fault.Target = check.FaultDisk, "journal"
		fault.For = d.between(4*time.Second, 12*time.Second)
	default:
		d.drawNode(&fault)
	}
	fault.For = min(fault.For, stop-at)
	if fault.Target == "" || d.busy[fault.Target] > at {
		return fault, false
	}
	d.busy[fault.Target] = at + fault.For + time.Second
	return fault, true
}

// drawPartition returns the partition of a node for all of a storm, every second time: shorter ones go
// unnoticed, as Kubernetes needs 10 s to find that a node is silent, and its Pods tolerate that for a while.
func (d *drawer) drawPartition(at, stop time.Duration) (Fault, bool) {
	fault := Fault{At: at, For: stop - at, Kind: check.FaultPartition, Target: pick(d.random, d.cluster.Nodes)}
	if fault.Target == "" || d.random.IntN(2) == 0 {
		return fault, false
	}
	d.busy[fault.Target] = stop + time.Second
	return fault, true
}

func (d *drawer) drawNode(fault *Fault) {
	fault.Target = pick(d.random, d.cluster.Nodes)
	fault.For = d.between(4*time.Second, 15*time.Second)
	switch d.random.IntN(7) {
	case 0:
		fault.Kind = check.FaultNotReady
	case 1:
		fault.Kind = check.FaultDelete
	case 2:
		fault.Kind = check.FaultCordon
	case 3:
		fault.Kind, fault.Way = check.FaultReboot, pick(d.random, []string{WayNotFound, WayEnded})
	case 4:
		fault.Kind = check.FaultShutdown
	case 5:
		fault.Kind = check.FaultPressure
	default:
		fault.Kind, fault.Number = check.FaultGPU, d.random.IntN(max(1, d.cluster.GPUs))
	}
}

func pick(random *rand.Rand, from []string) string {
	if len(from) == 0 {
		return ""
	}
	return from[random.IntN(len(from))]
}
