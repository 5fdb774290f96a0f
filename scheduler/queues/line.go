// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// Line is the gangs that wait, in GPUQueues or without any: who is served before whom, which places are booked for the
// first of them and from when on, and when the others are expected to start. Each of its parts has a lock of its own,
// which only its own methods hold, and none of these calls another part: so events, scheduling cycles and the periodic
// work may meet in it. What needs none says whose it is.
type Line struct {
	Sources
	core Core
	// source has the GPUQueues; it is nil in tests.
	source QueueSource

	// book is what the queues hold, and how long their Pods ran.
	book queueBook
	// order is that of the groups that wait, and ahead are the places that the first of these will get.
	// shadows are what of that is in the way of others.
	order   order
	ahead   ahead
	shadows castShadows
	// promises are what these gangs were told about that.
	promises promises
	// submissions are those of the last days, and outcomes how the last estimates turned out.
	submissions submissions
	outcomes    outcomes
	// estimates are when the gangs were said to start.
	estimates estimates
}

// Demand is what a gang is going to hold in its queue.
type Demand struct {
	Queue   string
	Amounts queueing.Amounts
}

// Sources are where a Line knows the cluster from.
type Sources struct {
	Args     *config.GangArgs
	Clock    clock.WithTicker
	Logger   klog.Logger
	Registry *gangs.Registry
	Mirror   *mirror.Mirror
	Filters  *filters.Consultant
	// Namespace returns a namespace; nil if it is not known.
	Namespace func(name string) *corev1.Namespace
}

// QueueSource has the GPUQueues.
type QueueSource interface {
	// Known reports whether they are known; Tree returns them as a tree, nil if there are none, and Queues as they are.
	Known() bool
	Tree() *queueing.Tree
	Queues() []*v1.GPUQueue
}

// Core is what a Line needs of the planner.
type Core interface {
	// RequestLater returns what a gang asks for once no node is kept for anybody any more, ShapeOf a shape in the
	// engine's terms, and UnpreparedClaims why a gang can't be planned yet because of its resource claims, or "".
	RequestLater(attempt *gangs.Attempt) (*gangs.Request, error)
	ShapeOf(shape *placement.Shape) placement.Shape
	UnpreparedClaims(attempt *gangs.Attempt) string
	// Demands returns what gangs that nodes are kept for are going to hold in their queues, except for one gang, and
	// KeptFor these gangs.
	Demands(except string) []Demand
	KeptFor() map[string]bool
	// Do carries actions out.
	Do(actions gangs.Actions)
	// EndPlaces ends what is kept for a gang.
	EndPlaces(group string)
	// CountStart counts the start of a gang whose owner was told when it starts: early, within what was told, or late.
	CountStart(result string)
	// WriteEstimate writes into a Pod when its gang starts, or with nil that nothing is known of that, and
	// ReportPostponed tells the owner that it starts later.
	WriteEstimate(ctx context.Context, pod *corev1.Pod, estimate *v1.StartEstimate) error
	ReportPostponed(leader *corev1.Pod, action, text string)
}

// NewLine returns the Line of a cluster without GPUQueues.
func NewLine(sources Sources, core Core) *Line {
	return &Line{
		Sources: sources, core: core, estimates: estimates{written: map[string]writtenEstimate{}},
		book: queueBook{state: NewState(nil, nil, sources.Namespace), history: runtimes.NewHistory()},
	}
}

// State returns what the GPUQueues say.
func (l *Line) State() *State { return l.book.queues() }

// SetState sets what the GPUQueues say.
func (l *Line) SetState(state *State) { l.book.set(state) }

// Follow has the GPUQueues read from a source: Order does it. It must be called before any other method.
func (l *Line) Follow(source QueueSource) { l.source = source }

// Waiting returns the groups that wait, in the order in which they are served. The slice must not be changed.
func (l *Line) Waiting() []Place { return l.order.first() }

// IsGuaranteed reports whether a group waits for what its queue is guaranteed.
func (l *Line) IsGuaranteed(group string) bool { return l.order.isGuaranteed(group) }

// Bookings returns the places that the first gangs will get, and when. The slice must not be changed.
func (l *Line) Bookings() []backfill.Booking { return l.ahead.all() }

// Booking returns a gang's booking.
func (l *Line) Booking(group string) (booking backfill.Booking, booked bool) {
	return l.ahead.of(group)
}

// Booked reports whether anything is booked.
func (l *Line) Booked() bool { return l.ahead.any() }

// Drop ends a gang's booking: it has got its place, or no longer waits. It reports whether there was one.
func (l *Line) Drop(group string) (had bool) { return l.ahead.drop(group) }

// RetryAll has times looked for again for all gangs: a node has changed, or what filters look at.
func (l *Line) RetryAll() { l.ahead.retryAll() }
