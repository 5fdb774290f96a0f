// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/verdict"
)

// Line is what waits for GPUs, in the order of the queues, and what holds some.
type Line struct {
	// Waiting are sorted by queue, then by position.
	Waiting []LineEntry `json:"waiting"`
	// Running are sorted by queue, then by the time since when they hold GPUs.
	Running []LineEntry `json:"running,omitempty"`
	// QueuesUnknown is true if it is not known which queue those are in that name none.
	QueuesUnknown bool `json:"queuesUnknown,omitempty"`
}

// LineEntry is a task, or a gang or Pod of another controller, that waits for GPUs or holds some. What has lost some of
// its Pods, and an array, may do both.
type LineEntry struct {
	// Queue is its GPUQueue; empty for none.
	Queue string `json:"queue,omitempty"`
	// Position is its place in its queue, from 1, as gpu-scheduler has published it; 0 if it is
	// not known, or it is not served.
	Position  int    `json:"position,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// GPUs are what its waiting Pods ask for, or its running Pods hold, written as gpu-amount of a task. Model is the
	// only one that it accepts, or empty.
	GPUs  string `json:"gpus"`
	Model string `json:"model,omitempty"`
	// Pods is how many these are.
	Pods          int    `json:"pods"`
	Priority      int32  `json:"priority"`
	PriorityClass string `json:"priorityClass,omitempty"`
	// Since is when it began to wait, or to hold GPUs.
	Since metav1.Time `json:"since"`
	// EstimatedStart is when it is expected to start; nil if gpu-scheduler has not said so.
	EstimatedStart *v1.StartEstimate `json:"estimatedStart,omitempty"`
	// EndsBy is when it will have ended by its deadline or its declared runtime; nil if nothing bounds it.
	EndsBy *metav1.Time `json:"endsBy,omitempty"`
	// Reason is why it waits, as far as anybody has said so. WaitingReason is what its scheduler has said; only
	// gpu-scheduler says more than a message.
	Reason        string            `json:"reason,omitempty"`
	WaitingReason *v1.WaitingReason `json:"waitingReason,omitempty"`
	// Verdict is the one that everybody shows. Refused is true if it is not served until that changes: then Reason is
	// its cause.
	Verdict verdict.Verdict `json:"verdict"`
	Refused bool            `json:"refused,omitempty"`
	// Nodes are those of its running Pods.
	Nodes []string `json:"nodes,omitempty"`

	// pod is the name of one of its Pods.
	pod string
	// rank is its place in its queue by our own computation, from 0, and turn that among all. place is its
	// position, published or not.
	rank, turn, place int
	job               queueing.Job
	asked             queueing.Amounts
}

// The kinds of LineEntries.
const (
	// KindTask is a GPUTask, KindGang Pods of another controller that start together, and KindPod a
	// single Pod.
	KindTask = "GPUTask"
	KindGang = "Gang"
	KindPod  = "Pod"
)

// LineObjects is what a Line is made of.
type LineObjects struct {
	Queues *Queues
	// Tasks are the GPUTasks with their Pods, and Pods any Pods, with or without those of the Tasks.
	Tasks []clusterview.Task
	Pods  []*corev1.Pod
	// Complete is true if these are all of the cluster: only then it is known who is first.
	Complete bool
	// Ledger is what the queues hold; nil for what their statuses say.
	Ledger *queueing.Ledger
	Now    time.Time
}

// NewLine returns what waits and what runs.
func NewLine(objects *LineObjects) *Line {
	line := &Line{QueuesUnknown: objects.Queues != nil && !objects.Queues.known()}
	for _, one := range gather(objects) {
		if entry, waits := one.waiting(objects.Queues); waits {
			line.Waiting = append(line.Waiting, entry)
		}
		if entry, runs := one.running(objects.Queues, objects.Now); runs {
			line.Running = append(line.Running, entry)
		}
	}
	line.order(objects)
	slices.SortFunc(line.Running, func(a, b LineEntry) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), a.Since.Compare(b.Since.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return line
}

// order sorts what waits as gpu-scheduler says; what it has not said anything about yet fills the gaps, as it would
// with its default policy.
func (l *Line) order(objects *LineObjects) {
	l.rank(objects.Queues, objects.Ledger)
	l.fillGaps()
	known := objects.Complete && (objects.Queues == nil || objects.Queues.known())
	for i := range l.Waiting {
		entry := &l.Waiting[i]
		if !entry.Refused && (known || entry.published() > 0) {
			entry.Position = entry.place
		}
	}
	slices.SortFunc(l.Waiting, func(a, b LineEntry) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(refusedLast(&a), refusedLast(&b)), cmp.Compare(a.place, b.place),
			cmp.Compare(a.rank, b.rank), cmp.Compare(a.job.Key, b.job.Key))
	})
	if known {
		l.closeGaps()
	}
}

// closeGaps counts only what is served now: what was published may count what was served then, and each Pod of an
// array.
func (l *Line) closeGaps() {
	last := map[string]int{}
	for i := range l.Waiting {
		if entry := &l.Waiting[i]; !entry.Refused {
			last[entry.Queue]++
			entry.Position = last[entry.Queue]
		}
	}
}

func refusedLast(e *LineEntry) int {
	if e.Refused {
		return 1
	}
	return 0
}

// published returns the position that gpu-scheduler has published; 0 if it has not.
func (e *LineEntry) published() int {
	if e.EstimatedStart == nil {
		return 0
	}
	return int(e.EstimatedStart.Position)
}

// fillGaps gives each entry its place: the published position, or one that no other entry of the queue has. Positions
// that were published at different times may be equal: then the one that is served first keeps it.
func (l *Line) fillGaps() {
	byQueue := map[string][]*LineEntry{}
	for i := range l.Waiting {
		if entry := &l.Waiting[i]; !entry.Refused {
			byQueue[entry.Queue] = append(byQueue[entry.Queue], entry)
		}
	}
	for _, entries := range byQueue {
		slices.SortFunc(entries, func(a, b *LineEntry) int { return cmp.Compare(a.turn, b.turn) })
		published := make([]int, len(entries))
		for i, entry := range entries {
			published[i] = entry.published()
		}
		for i, place := range gpuqueue.Places(published) {
			entries[i].place = place
		}
		slices.SortStableFunc(entries, func(a, b *LineEntry) int { return cmp.Compare(a.place, b.place) })
		for i := 1; i < len(entries); i++ {
			entries[i].place = max(entries[i].place, entries[i-1].place+1)
		}
	}
}

// rank computes the order by what is known here: gpu-scheduler also knows how long jobs ran that declare nothing.
func (l *Line) rank(queues *Queues, ledger *queueing.Ledger) {
	jobs, asked, index := make([]queueing.Job, 0, len(l.Waiting)), make([]queueing.Amounts, 0, len(l.Waiting)), make([]int, 0, len(l.Waiting))
	for i := range l.Waiting {
		if entry := &l.Waiting[i]; !entry.Refused {
			jobs, asked, index = append(jobs, entry.job), append(asked, entry.asked), append(index, i)
		}
	}
	options, factors := queueing.Options{Policy: queueing.FIFO}, map[string]float64(nil) // without queues: by priority, then by age
	if queues.known() {
		options, factors = queueing.Options{}, queues.Factors
		if ledger == nil {
			ledger = queues.ledger()
		}
	}
	for turn, one := range options.Serve(jobs, asked, factors, ledger) {
		entry := &l.Waiting[index[one.Index]]
		entry.rank, entry.turn = one.Position, turn
	}
}

// runtimeOf returns how long a job of a queue runs, from what it declares and what the queue assumes.
func runtimeOf(queues *Queues, queue string, declared time.Duration) queueing.Runtime {
	if queues.known() {
		return gpuqueue.DeclaredRuntime(queues.Tree, queue, declared)
	}
	return gpuqueue.DeclaredRuntime(nil, queue, declared)
}

// CompareTurns compares two waiting entries: those that are served first come first, as far as that is known here,
// those that are refused last.
func CompareTurns(a, b LineEntry) int {
	return cmp.Or(cmp.Compare(refusedLast(&a), refusedLast(&b)), cmp.Compare(a.turn, b.turn))
}

// Asked returns what a waiting entry asks for.
func (e *LineEntry) Asked() queueing.Amount { return e.asked.Sum() }
