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

// podTimes are when a Pod was first seen at each stage, zero if it never was.
type podTimes struct{ created, bound, ran time.Time }

// timeline records what happens to all gangs.
type timeline struct {
	start time.Time
	// complete receives the index of each gang when all its Pods run, and is closed
	// after the last one.
	complete chan int
	// done is closed when all Pods run and all GPUTasks that are expected to report it
	// have.
	done chan struct{}

	mu    sync.Mutex
	gangs map[string]*gangTimes
	pods  map[string]podTimes
	// waiting is how many Pods do not run yet, unreported how many GPUTasks have not
	// reported yet that they run.
	waiting, unreported int
	// lost counts Pods that were deleted.
	lost int
	// last is when anything last happened; ran is when the last Pod started to run, and
	// reported when the last GPUTask reported it.
	last, ran, reported time.Time
}

// newTimeline expects gangs to be created at certain times after the start.
// reportsRunning is true if their GPUTasks will report that they run.
func newTimeline(start time.Time, gangs []*gang, at []time.Duration, reportsRunning bool) *timeline {
	t := &timeline{
		start: start, complete: make(chan int, len(gangs)), done: make(chan struct{}),
		gangs: map[string]*gangTimes{}, pods: map[string]podTimes{},
	}
	for i, g := range gangs {
		t.gangs[g.name()] = &gangTimes{index: i, size: g.size(), due: start.Add(at[i])}
		t.waiting += g.size()
	}
	if reportsRunning {
		t.unreported = len(gangs)
	}
	return t
}

// handlePod records an event of a Pod. Pods of other gangs are ignored.
func (t *timeline) handlePod(event watch.Event, now time.Time) {
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
		times.bound, t.last = now, now
		gang.bind(now)
	}
	if pod.Status.Phase == corev1.PodRunning && times.ran.IsZero() {
		times.ran, t.last = now, now
		t.run(gang, now)
	}
	t.pods[pod.Name] = times
}

// run records that one more Pod of a gang runs.
func (t *timeline) run(g *gangTimes, now time.Time) {
	g.running, g.ran = g.running+1, now
	t.ran = now
	t.waiting--
	if g.running == g.size {
		t.complete <- g.index
	}
	if t.waiting == 0 {
		close(t.complete)
		t.end()
	}
}

// handleTask records an event of a GPUTask. Other GPUTasks are ignored.
func (t *timeline) handleTask(event watch.Event, now time.Time) {
	task, ok := event.Object.(*v1.GPUTask)
	if !ok || task.Status.Phase != v1.PhaseRunning {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	gang := t.gangs[task.Name]
	if gang == nil || !gang.reported.IsZero() {
		return
	}
	gang.reported, t.last, t.reported = now, now, now
	t.unreported--
	t.end()
}

func (t *timeline) end() {
	if t.waiting == 0 && t.unreported == 0 {
		close(t.done)
	}
}

// progress returns how many Pods run, of how many, and when anything last happened.
func (t *timeline) progress() (running, all int, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, gang := range t.gangs {
		all += gang.size
	}
	return all - t.waiting, all, t.last
}

// outcome sums up what was seen.
func (t *timeline) outcome() outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := outcome{Seconds: t.ran.Sub(t.start).Seconds(), Lost: t.lost, Stages: t.stages()}
	if !t.reported.IsZero() {
		o.Told = t.reported.Sub(t.start).Seconds()
	}
	for _, gang := range t.gangs {
		o.Latencies = append(o.Latencies, gang.ran.Sub(gang.due).Seconds())
		o.BindLatencies = append(o.BindLatencies, gang.lastBound.Sub(gang.due).Seconds())
		o.Pauses = append(o.Pauses, gang.pause.Seconds())
		o.LongestSpread = max(o.LongestSpread, gang.lastBound.Sub(gang.firstBound).Seconds())
	}
	return o
}

// stages returns when half of the Pods and all of them had reached each stage.
func (t *timeline) stages() map[string][2]float64 {
	seconds := map[string][]float64{}
	for _, times := range t.pods {
		for stage, at := range map[string]time.Time{"created": times.created, "bound": times.bound, "running": times.ran} {
			seconds[stage] = append(seconds[stage], at.Sub(t.start).Seconds())
		}
	}
	result := map[string][2]float64{}
	for stage, list := range seconds {
		result[stage] = [2]float64{median(list), percentile(list, 100)}
	}
	return result
}
