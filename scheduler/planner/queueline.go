// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
	"falldio.github.io/gpu-controller/scheduler/queues"
)

// Line is the gangs that wait in GPUQueues: who is served before whom, which places are reserved for the first of them and from when on,
// and when the others are expected to start. Each of its parts has a lock of its own, which only its own methods hold, and none of these
// calls another part: so events, scheduling cycles and the periodic work may meet in it.
type Line struct {
	LineSources
	core Core
	// source has the GPUQueues; it is nil in tests.
	source QueueSource

	// book is what the queues hold, and how long their Pods ran.
	book queueBook
	// order is that of the groups that wait, and ahead are the places that the first of these will get.
	order order
	ahead ahead
	// promises are what these gangs were told about that.
	promises promises
	// submissions are those of the last days, and outcomes how the last estimates turned out.
	submissions submissions
	outcomes    outcomes
}

// LineSources are where a Line knows the cluster from.
type LineSources struct {
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
	// RequestLater returns what a gang asks for once no node is claimed any more, ShapeOf a shape in the engine's terms, and
	// UnpreparedClaims why a gang can't be planned yet because of its resource claims, or "".
	RequestLater(attempt *gangs.Attempt) (*gangs.Request, error)
	ShapeOf(shape *placement.Shape) placement.Shape
	UnpreparedClaims(attempt *gangs.Attempt) string
	// Demands returns what gangs that claim nodes are going to hold in their queues, except for one gang, and Claiming these gangs.
	Demands(except string) []claimedInQueue
	Claiming() map[string]bool
	// Do carries actions out. Wake has gangs tried again since there may be more room, and AdmitTurnedAway Pods that are not ours.
	Do(actions gangs.Actions)
	Wake()
	AdmitTurnedAway()
	// EndPlaces ends what is kept for a gang.
	EndPlaces(group string)
	// MayAct reports whether this process leads and knows what runs.
	MayAct() bool
	// WriteEstimate writes into a Pod when its gang starts, and ReportPostponed tells the owner that it starts later.
	WriteEstimate(ctx context.Context, pod *corev1.Pod, estimate *v1.StartEstimate) error
	ReportPostponed(leader *corev1.Pod, action, text string)
}

// NewLine returns the Line of a cluster without GPUQueues.
func NewLine(sources LineSources, core Core) *Line {
	return &Line{LineSources: sources, core: core, book: queueBook{history: runtimes.NewHistory()}}
}

// State returns what the GPUQueues say; nil if there are none.
func (l *Line) State() *queues.State { return l.book.queues() }
