// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unschedulable says why gangs find no place. Only the leader of a gang has a scheduling cycle, after which
// kube-scheduler writes into the Pod's condition why that found no node, in words. This package writes the reason as a
// value beside them, for those who show it. If it is to, it also writes the condition to the other members: autoscalers
// read it, and add room for all of them.
package unschedulable

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

const (
	// period is how often Pods are written, and atOnce how many at a time: a gang of a
	// thousand must not delay what the scheduler does itself.
	period = time.Second
	atOnce = 50
	// settle is how long a gang has to wait before its members are written: an attempt may
	// be followed by a preemption, or by another attempt that finds a place. The leader is written later if it
	// may be expected to start: when, is mostly written before, and the reason together with that.
	settle, leaderSettle = time.Second, 7 * time.Second
	// leaderPeriod is how often a leader is written at most.
	leaderPeriod = 10 * time.Second
	// numbersPeriod is how often the reason of a gang may change of which only numbers change.
	numbersPeriod = 30 * time.Second
	// sweepPeriod is how often gangs are forgotten that don't wait any more.
	sweepPeriod = 10 * time.Second
	// writeLimit bounds how long the API server may take for one Pod.
	writeLimit = 10 * time.Second
)

// Gangs knows which Pods wait.
type Gangs interface {
	// Fails reports whether a gang, or a Pod in none, waits because its last attempt found no place.
	Fails(gang string) bool
	// Leader returns the Pod of such a gang that has scheduling cycles; nil if it does not wait. Unplaced
	// returns the others that wait.
	Leader(gang string) *corev1.Pod
	Unplaced(gang string) []*corev1.Pod
}

// Options are what a Reporter depends on.
type Options struct {
	Client kubernetes.Interface
	Clock  clock.PassiveClock
	Gangs  Gangs
	// Members is true if the members of gangs get the condition that their leaders have.
	Members bool
	// MayWrite reports whether this process leads. HasProspect reports whether a gang will
	// fit when Pods have left that are about to: it needs no other room.
	MayWrite    func() bool
	HasProspect func(gang string) bool
}

// Reporter writes why gangs wait. It is safe for concurrent use.
type Reporter struct {
	Options
	mu      sync.Mutex
	reports map[string]*report
	// swept is when the reports were swept last.
	swept time.Time
}

// report is why a gang waits.
type report struct {
	gang string
	// reason is never changed, only replaced. text is it in words.
	reason *v1.WaitingReason
	text   string
	// since is when the gang was first reported, and changedAt when a Pod was last written
	// whose condition it only changed.
	since, changedAt time.Time
	// pending is true if the reason may not have been written to all members.
	pending bool
	// leader was given the reason onLeader, which the informer may not show yet, at a time.
	leader      types.UID
	onLeader    *v1.WaitingReason
	annotatedAt time.Time
	// written are the texts of members that the informer may not show yet. The map is never
	// changed, only replaced.
	written map[types.UID]string
}

// New returns a Reporter.
func New(options Options) *Reporter {
	return &Reporter{Options: options, reports: map[string]*report{}}
}

// Say records why an attempt has found no place for a gang, and returns how to say it: as before if only numbers
// have changed since a short time ago, so that Pods are not written whenever one does. It returns at once. Each Pod is
// written at most once for each reason.
func (r *Reporter) Say(gang string, reason v1.WaitingReason) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	one := r.reports[gang]
	if one == nil {
		one = &report{gang: gang, since: now, written: map[types.UID]string{}}
		r.reports[gang] = one
	}
	if one.reason != nil && differOnlyInNumbers(one.reason, &reason) && now.Sub(one.reason.Time.Time) < numbersPeriod {
		one.pending = true // there may be further members
		return one.text
	}
	if one.reason == nil || !waitingreason.Same(one.reason, &reason) {
		reason.Time = metav1.NewTime(now)
		one.reason, one.text = &reason, waitingreason.Sentence(&reason)
	}
	one.pending = true
	return one.text
}

// differOnlyInNumbers reports whether two reasons why nodes have no room are the same, if not of as many nodes.
func differOnlyInNumbers(a, b *v1.WaitingReason) bool {
	sameKind := func(x, y v1.WaitingRemedy) bool { return x.Kind == y.Kind && x.Resource == y.Resource }
	return a.Needs != "" && a.Reason == b.Reason && a.Needs == b.Needs && a.Never == b.Never && slices.EqualFunc(a.Remedies, b.Remedies, sameKind)
}

// Run writes until ctx ends.
func (r *Reporter) Run(ctx context.Context) { wait.UntilWithContext(ctx, r.write, period) }

// write writes what is due, at most atOnce Pods.
func (r *Reporter) write(ctx context.Context) {
	if !r.MayWrite() {
		return
	}
	r.sweep()
	left := atOnce
	for _, one := range r.due() {
		switch {
		case !r.Gangs.Fails(one.gang):
			r.drop(one.gang)
			continue
		case r.HasProspect(one.gang):
			continue
		}
		if left = r.writeGang(ctx, &one, left); left == 0 {
			return
		}
	}
}

// due returns copies of the reports that are to be written of gangs that have waited long enough, the oldest first.
func (r *Reporter) due() []report {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.Clock.Now()
	var due []report
	for _, one := range r.reports {
		if one.pending && now.Sub(one.since) >= settle {
			due = append(due, *one)
		}
	}
	slices.SortFunc(due, func(a, b report) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.gang, b.gang)) })
	return due
}

// sweep forgets the gangs that don't wait any more, from time to time.
func (r *Reporter) sweep() {
	if r.Clock.Since(r.swept) < sweepPeriod {
		return
	}
	r.swept = r.Clock.Now()
	for _, gang := range r.gangs() {
		if !r.Gangs.Fails(gang) {
			r.drop(gang)
		}
	}
}

func (r *Reporter) gangs() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.reports))
}

func (r *Reporter) drop(gang string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reports, gang)
}

// writeGang writes Pods of a gang, at most limit, and returns how many more may be written.
func (r *Reporter) writeGang(ctx context.Context, one *report, limit int) (left int) {
	limit, complete := r.writeLeader(ctx, one, limit)
	if r.Members && needsNodes(one.reason.Reason) {
		var all bool
		limit, all = r.writeMembers(ctx, one, limit)
		complete = complete && all
	}
	if complete {
		r.completed(one)
	}
	return limit
}

func (r *Reporter) completed(one *report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if current := r.reports[one.gang]; current != nil && current.reason == one.reason {
		current.pending = false
	}
}
