// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// SpanState is what a Pod does for a while.
type SpanState string

// What a Pod does for a while. The last ones are how it ended: Gone if it was deleted, or lost, for none of the reasons
// before.
const (
	SpanWaiting   SpanState = "Waiting"
	SpanStarting  SpanState = "Starting"
	SpanRunning   SpanState = "Running"
	SpanSucceeded SpanState = "Succeeded"
	SpanFailed    SpanState = "Failed"
	SpanPreempted SpanState = "Preempted"
	SpanMoved     SpanState = "Moved"
	SpanEvicted   SpanState = "Evicted"
	SpanGone      SpanState = "Gone"
)

// Span is what a Pod does for a while; without To it still does.
type Span struct {
	State SpanState    `json:"state"`
	From  metav1.Time  `json:"from"`
	To    *metav1.Time `json:"to,omitempty"`
	// Begin is what became of the Pod before, on the first span of its replacement.
	Begin string `json:"begin,omitempty"`
	Node  string `json:"node,omitempty"`
	Note  string `json:"note,omitempty"`
}

// Life is what happened to one Pod. Later Pods of the same name have their own.
type Life struct {
	Pod, Node, Attempt string
	Created            metav1.Time
	// Scheduled, Running and Ended are nil for what has not happened.
	Scheduled, Running, Ended *metav1.Time
	// End is how it ended, Why why it was stopped, if it was at Stopped: "preempted", "evicted" …; Note what its
	// containers say, or for whom it was preempted.
	End       SpanState
	Why, Note string
	Stopped   metav1.Time
}

// LifeOf returns what happened to a Pod so far. gone is when it was deleted; nil for a Pod that still exists.
func LifeOf(pod *corev1.Pod, gone *metav1.Time) Life {
	life := Life{Pod: pod.Name, Node: pod.Spec.NodeName, Attempt: pod.Labels[v1.LabelAttempt], Created: pod.CreationTimestamp, Why: podfacts.StoppedBy(pod)}
	if pod.Spec.NodeName != "" {
		life.Scheduled = timeOf(podfacts.BoundAt(pod))
	}
	life.Running, life.Ended = timeOf(podfacts.BeganAt(pod)), timeOf(podfacts.EndedAt(pod))
	if failure, found := podfacts.Failure(pod); found {
		life.Note = strings.TrimSpace(failure.Reason + " " + failure.Message)
	}
	var stopped v1.InterruptionReason
	if stopped, life.Stopped = podfacts.Interruption(pod); stopped == v1.InterruptionPreempted {
		life.Note = podfacts.Condition(pod, corev1.DisruptionTarget).Message
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded:
		life.End = SpanSucceeded
	case corev1.PodFailed:
		life.End, life.Note = SpanFailed, cmp.Or(life.Note, pod.Status.Reason, pod.Status.Message)
	case corev1.PodRunning:
		life.Running, life.Ended = cmp.Or(life.Running, pod.Status.StartTime), nil
	default:
		life.Running, life.Ended = nil, nil
	}
	if life.End == "" && gone != nil {
		life.End, life.Ended = SpanGone, gone
	}
	if life.End != "" && life.Ended == nil {
		life.Ended = cmp.Or(gone, life.Running, life.Scheduled, &life.Created)
	}
	return life
}

// timeOf returns a time, nil if it is not known.
func timeOf(at time.Time, known bool) *metav1.Time {
	if !known {
		return nil
	}
	return &metav1.Time{Time: at}
}

// Spans returns the lives of the Pods of one member of a task as one timeline. The lives are sorted by their beginning.
func Spans(lives []Life, task *v1.GPUTaskStatus) []Span {
	slices.SortStableFunc(lives, func(a, b Life) int { return a.Created.Compare(b.Created.Time) })
	spans := []Span{}
	var before *Life
	for i := range lives {
		life := &lives[i]
		if life.Why == evicted {
			life.Why = evictedFor(life.Stopped, task)
		}
		life.End = endOf(life.Why, life.End)
		own := life.spans()
		if before != nil {
			own[0].Begin = begin(before, life)
		}
		spans, before = append(spans, own...), life
	}
	return spans
}

// How Pods are stopped, as podfacts.StoppedBy says it, and what evictions are for.
const (
	preempted = "preempted"
	evicted   = "evicted"
	moved     = "moved"
	drained   = "drained"
)

// endOf returns how a Pod ended that was stopped like this, instead of its own end.
func endOf(why string, own SpanState) SpanState {
	switch {
	case own == "" || own == SpanSucceeded:
		return own
	case why == preempted:
		return SpanPreempted
	case why == moved:
		return SpanMoved
	case why == evicted || why == drained:
		return SpanEvicted
	}
	return own
}

// evictedFor returns what a Pod was evicted for, as far as its task remembers: only what was last.
func evictedFor(at metav1.Time, task *v1.GPUTaskStatus) string {
	last := task.LastInterruption
	switch {
	case last == nil || at.Before(&last.Time):
		if task.Moves > 0 {
			return moved
		}
	case last.EndTime != nil && last.EndTime.Before(&at):
	case last.Reason == v1.InterruptionMoved:
		return moved
	case last.Reason == v1.InterruptionDrained:
		return drained
	}
	return evicted
}

// begin says why a Pod replaces an earlier one.
func begin(before, after *Life) string {
	switch {
	case before.Why != "":
		return before.Why
	case before.Attempt != after.Attempt || before.End == SpanFailed:
		return "restarted"
	default:
		return "replaced"
	}
}

// spans returns what one Pod did. There is at least one.
func (l *Life) spans() []Span {
	var spans []Span
	add := func(state SpanState, from metav1.Time, to *metav1.Time, node string) {
		if to != nil && to.Before(&from) {
			to = &from // clocks of nodes differ
		}
		spans = append(spans, Span{State: state, From: from, To: to, Node: node})
	}
	add(SpanWaiting, l.Created, cmp.Or(l.Scheduled, l.Ended), "")
	if l.Scheduled != nil {
		add(SpanStarting, *l.Scheduled, cmp.Or(l.Running, l.Ended), l.Node)
	}
	if l.Running != nil {
		add(SpanRunning, *l.Running, l.Ended, l.Node)
	}
	if l.End != "" && l.Ended != nil {
		add(l.End, *l.Ended, l.Ended, l.Node)
		spans[len(spans)-1].Note = strings.Trim(l.Why+": "+l.Note, ": ")
	}
	return slices.DeleteFunc(spans, func(span Span) bool { // what took no time, but how it ended
		return span.To != nil && span.State != l.End && span.To.Equal(&span.From)
	})
}
