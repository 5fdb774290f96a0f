// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// maxPause is how long a gang may have some but not all of its Pods bound without
// another one being bound. Writing all bindings of a large gang takes longer than
// that in all; a gang that makes no progress holds GPUs in vain.
const maxPause = time.Second

// gangTimes are the moments of a gang, as the benchmark's own watch saw them.
type gangTimes struct {
	size int
	// due is when it was to be created.
	due time.Time
	// bound and running count Pods; the times are those of the last one.
	bound, running             int
	firstBound, lastBound, ran time.Time
	// pause is the longest time between two bindings.
	pause time.Duration
}

// isPartial reports whether the gang held GPUs in vain.
func (g *gangTimes) isPartial() bool {
	return g.pause > maxPause || g.bound > 0 && g.bound < g.size
}

// podTimes says when a Pod was first seen at each stage, zero if it never was.
type podTimes struct{ created, bound, ran time.Time }

// timeline gathers what happens to the Pods of all gangs.
type timeline struct {
	mu    sync.Mutex
	gangs map[string]*gangTimes
	pods  map[string]podTimes
	// waiting is how many Pods do not run yet.
	waiting int
	// lost counts Pods that were deleted.
	lost int
	// last is when a Pod was bound or ran last.
	last time.Time
	// done is closed when all Pods run.
	done chan struct{}
}

func newTimeline() *timeline {
	return &timeline{gangs: map[string]*gangTimes{}, pods: map[string]podTimes{}, done: make(chan struct{})}
}

// expect adds a gang.
func (t *timeline) expect(name string, size int, due time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gangs[name] = &gangTimes{size: size, due: due}
	t.waiting += size
}

// see notes an event. Pods of gangs that are not expected are passed over.
func (t *timeline) see(event watch.Event, now time.Time) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	gang := t.gangs[pod.Labels[v1.LabelTask]]
	if gang == nil {
		return
	}
	if event.Type == watch.Deleted {
		t.lost++
		return
	}
	times := t.pods[pod.Name]
	if times.created.IsZero() {
		times.created = now
	}
	if pod.Spec.NodeName != "" && times.bound.IsZero() {
		times.bound = now
		gang.bind(now)
		t.last = now
	}
	if pod.Status.Phase == corev1.PodRunning && times.ran.IsZero() {
		times.ran = now
		gang.running, gang.ran = gang.running+1, now
		t.last = now
		if t.waiting--; t.waiting == 0 {
			close(t.done)
		}
	}
	t.pods[pod.Name] = times
}

func (g *gangTimes) bind(now time.Time) {
	if g.bound == 0 {
		g.firstBound = now
	} else {
		g.pause = max(g.pause, now.Sub(g.lastBound))
	}
	g.bound, g.lastBound = g.bound+1, now
}

// progress returns how many Pods run, of how many, and when something happened
// last.
func (t *timeline) progress() (running, all int, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, gang := range t.gangs {
		all += gang.size
	}
	return all - t.waiting, all, t.last
}

// stages returns when, in seconds after a start, half of the Pods and all of them
// had come to each stage.
func (t *timeline) stages(start time.Time) map[string][2]float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds := map[string][]float64{}
	for _, times := range t.pods {
		for stage, at := range map[string]time.Time{"created": times.created, "bound": times.bound, "running": times.ran} {
			seconds[stage] = append(seconds[stage], at.Sub(start).Seconds())
		}
	}
	result := map[string][2]float64{}
	for stage, list := range seconds {
		result[stage] = [2]float64{median(list), percentile(list, 100)}
	}
	return result
}

// outcome sums up what was seen.
func (t *timeline) outcome() outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := outcome{Lost: t.lost}
	for _, gang := range t.gangs {
		o.Latencies = append(o.Latencies, gang.ran.Sub(gang.due).Seconds())
		o.BindLatencies = append(o.BindLatencies, gang.lastBound.Sub(gang.due).Seconds())
		o.LongestPause = max(o.LongestPause, gang.pause.Seconds())
		o.LongestSpread = max(o.LongestSpread, gang.lastBound.Sub(gang.firstBound).Seconds())
		if gang.isPartial() {
			o.Partial++
		}
	}
	return o
}
