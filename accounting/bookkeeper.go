// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package accounting counts who has used how much GPU time, and writes it into ConfigMaps. What is counted, and how it
// is kept within bounds, is decided by pkg/accounting; this package gathers what that needs and writes the result. The
// ConfigMaps are all that is kept: whoever writes them next goes on from there, and counts nothing twice.
package accounting

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/accounting"
	tasklisters "falldio.github.io/gpu-controller/pkg/generated/listers/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpupods"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

const (
	// syncPeriod is how long to wait for the caches, and retryPeriod after an error.
	syncPeriod  = time.Second
	retryPeriod = 15 * time.Second
	// maxEnded is how many Pods that have ended are remembered while nothing can be written.
	maxEnded = 100_000
)

// Dependencies are what a Bookkeeper needs.
type Dependencies struct {
	Kube kubernetes.Interface
	// Pods are run by the caller.
	Pods *gpupods.Cache
	// Tasks have synced when Run is called.
	Tasks tasklisters.GPUTaskLister
	// QueueTree returns the tree of queues, nil if there is none, and QueuesKnown whether that is known.
	QueueTree   func() *queueing.Tree
	QueuesKnown func() bool
	// NamespaceOf returns a namespace from a cache that the caller fills, nil if it does not exist; NamespacesSynced is
	// that cache's.
	NamespaceOf      func(name string) *corev1.Namespace
	NamespacesSynced cache.InformerSynced
	Metrics          prometheus.Registerer
	Clock            clock.WithTicker
}

// Bookkeeper counts GPU time. A single goroutine, that of Run, does all the work.
type Bookkeeper struct {
	deps    Dependencies
	options Options
	reader  *gpupods.Reader
	store   *store
	metrics *metrics

	// book is the one that was written last; nil before it was read.
	book *accounting.Book
	// ended are Pods whose end is not counted yet. Most of them no longer exist.
	ended map[types.UID]accounting.Pod
	// open are the Pods that the last pass has shown and that had not ended.
	open map[types.UID]*corev1.Pod
	// known are the Pods that the last pass has shown and that had ended.
	known sets.Set[types.UID]
	// vanished are those of them that were not shown by the last pass.
	vanished map[types.UID]bool
	// models are the GPU models of nodes, which may be gone before their Pods are counted.
	models map[string]string
	// seen are versions of the Pods, and when everything up to them was in the cache.
	seen []version
}

// version is a version of the Pods that was in the cache at a time.
type version struct {
	at     time.Time
	number uint64
}

// New returns a Bookkeeper.
func New(deps Dependencies, options Options) *Bookkeeper {
	return &Bookkeeper{
		deps: deps, options: options, reader: deps.Pods.NewReader(), store: &store{kube: deps.Kube}, metrics: newMetrics(deps.Metrics),
	}
}

// Run counts until ctx ends.
func (b *Bookkeeper) Run(ctx context.Context) {
	if b.options.Period == 0 {
		return
	}
	b.deps.Pods.Want()
	b.forget() // a former leader's books count, not what this process knew when it last led
	defer b.reader.Forget()
	for ctx.Err() == nil {
		pause := b.options.Period
		if !b.cached() {
			pause = syncPeriod
		} else if err := b.pass(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Writing the usage of GPUs failed; trying again")
			pause = min(retryPeriod, pause)
			if len(b.ended) > maxEnded {
				clear(b.ended) // what can't be written for too long is given up
			}
		}
		select {
		case <-ctx.Done():
		case <-b.deps.Clock.After(pause):
		}
	}
}

func (b *Bookkeeper) forget() {
	b.book, b.ended, b.open, b.models, b.seen = nil, map[types.UID]accounting.Pod{}, nil, map[string]string{}, nil
	b.known, b.vanished = nil, map[types.UID]bool{}
	b.store.forget()
}

// cached reports whether everything is cached that a pass needs.
func (b *Bookkeeper) cached() bool {
	return b.deps.Pods.HasSynced() && b.deps.NamespacesSynced() && b.deps.QueuesKnown()
}

// pass counts up to a moment ago and writes the books of the days that this is about, the earliest first. A book is
// written with the time up to which it counts: whenever this ends, the next pass goes on from the last one that was
// written.
func (b *Bookkeeper) pass(ctx context.Context) error {
	now := b.deps.Clock.Now()
	until := now.Add(-b.options.settle()).Truncate(time.Second)
	if b.book == nil || isAhead(b.book, now) {
		if err := b.openBook(ctx, until); err != nil {
			return err
		}
	}
	b.seen = append(b.seen, version{now, b.deps.Pods.ResourceVersion()})
	pods, open, err := b.gather()
	if err != nil {
		return err
	}
	b.open = open
	for b.book.AsOf.Before(until) {
		if err := b.write(ctx, pods, until); err != nil {
			return err
		}
	}
	maps.DeleteFunc(b.ended, func(_ types.UID, pod accounting.Pod) bool { return pod.Ended.Before(b.book.AsOf) })
	return nil
}

// isAhead reports whether a book was counted by a clock that was wrong: it would be the last one until its time has
// come.
func isAhead(book *accounting.Book, now time.Time) bool {
	return book.AsOf.After(now.Add(queueing.MaxAhead))
}

// openBook reads the last book, or begins one, and finds out which Pods were deleted since it was written.
func (b *Bookkeeper) openBook(ctx context.Context, begin time.Time) error {
	// From now on the reader remembers Pods that are deleted. Those before are in the API server's history.
	var gone []*corev1.Pod
	if err := b.reader.Each(func(pod *corev1.Pod) { gone = append(gone, pod) }); err != nil {
		return err
	}
	book, err := b.store.last(ctx, begin)
	if err != nil {
		return err
	}
	if book == nil {
		book = accounting.NewBook(begin)
		book.ResourceVersion = b.deps.Pods.ResourceVersion()
		if err := b.store.write(ctx, book); err != nil {
			return err
		}
	}
	if isAhead(book, begin) {
		klog.FromContext(ctx).Info("The usage of GPUs was counted by a clock that was ahead; it is counted from now on", "countedUntil", book.AsOf)
		book = book.Until(begin)
	}
	deleted, err := deletedSince(ctx, b.deps.Kube, book.ResourceVersion, b.deps.Pods.ResourceVersion(), b.deps.Clock.Now())
	if err != nil {
		return err
	}
	b.book = book
	translate := b.translator()
	for _, pod := range append(gone, deleted...) {
		if gpuqueue.Amount(pod) > 0 && podfacts.Ended(pod) {
			b.remember(translate, pod)
		}
	}
	return nil
}

// write counts until a time, or the end of the book's day, and writes the result.
func (b *Bookkeeper) write(ctx context.Context, pods []accounting.Pod, until time.Time) error {
	book := b.book.Clone()
	if book.IsComplete() {
		book = book.Next()
	}
	added := accounting.NewBook(book.AsOf)
	added.Charge(pods, until)
	book.Merge(added)
	b.updateVersion(book)
	if err := b.store.write(ctx, book); err != nil {
		if errors.Is(err, errOutdated) {
			b.book = nil // somebody else has written it: go on from there
		}
		return err
	}
	b.book = book
	b.metrics.add(added)
	return nil
}

// updateVersion sets the last version of the Pods that is not later than what the book has counted. There is none in
// the first moments of a leader; then the book keeps its former leader's.
func (b *Bookkeeper) updateVersion(book *accounting.Book) {
	last := -1
	for i, seen := range b.seen {
		if seen.number > 0 && !seen.at.After(book.AsOf) {
			last = i
		}
	}
	if last >= 0 {
		book.ResourceVersion = b.seen[last].number
		b.seen = slices.Delete(b.seen, 0, last)
	}
}

// gather returns the Pods to be counted, and those of them that have not ended.
func (b *Bookkeeper) gather() ([]accounting.Pod, map[types.UID]*corev1.Pod, error) {
	open, shown, known := map[types.UID]*corev1.Pod{}, map[types.UID]bool{}, sets.Set[types.UID]{}
	translate := b.translator()
	err := b.reader.Each(func(pod *corev1.Pod) {
		shown[pod.UID] = true
		switch {
		case gpuqueue.Amount(pod) == 0:
		case podfacts.Ended(pod):
			b.remember(translate, pod)
			known.Insert(pod.UID)
		default:
			open[pod.UID] = pod
		}
	})
	if err != nil {
		return nil, nil, err
	}
	b.known = known
	b.keepVanished(open, shown)
	pods := slices.AppendSeq(make([]accounting.Pod, 0, len(open)+len(b.ended)), maps.Values(b.ended))
	nodes := map[string]bool{}
	for _, pod := range open {
		nodes[pod.Spec.NodeName] = true
		pods = append(pods, translate.pod(pod))
	}
	maps.DeleteFunc(b.models, func(node string, _ string) bool { return !nodes[node] })
	return pods, open, nil
}

// keepVanished keeps Pods open that were deleted this moment: they are shown once more, with their end, by the next
// pass.
func (b *Bookkeeper) keepVanished(open map[types.UID]*corev1.Pod, shown map[types.UID]bool) {
	vanished := map[types.UID]bool{}
	for uid, pod := range b.open {
		if _, ended := b.ended[uid]; ended || shown[uid] || b.vanished[uid] {
			continue
		}
		vanished[uid], open[uid] = true, pod
	}
	b.vanished = vanished
}

// remember keeps a Pod that has ended until it is counted.
func (b *Bookkeeper) remember(translate *translator, pod *corev1.Pod) {
	if _, known := b.ended[pod.UID]; known {
		return
	}
	// A node's clock may be wrong, so that the end seems to be long ago, or is yet to come.
	end := endOf(pod)
	late := end.Before(b.book.AsOf) || end.After(b.deps.Clock.Now().Add(queueing.MaxAhead))
	if b.open[pod.UID] == nil && (late || b.known.Has(pod.UID)) {
		return // its end is counted
	}
	ended := translate.pod(pod)
	if late {
		ended.Ended = b.book.AsOf // its GPUs were not free before it was known
	}
	b.ended[pod.UID] = ended
}
