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

// podTimes says when a Pod was first seen at each stage, zero if it never was.
type podTimes struct{ created, bound, ran time.Time }

// timeline gathers what happens to all gangs.
type timeline struct {
	start time.Time
	// complete receives the index of each gang when all its Pods run, and is closed
	// after the last one.
	complete chan int
	// done is closed when all Pods run and all GPUTasks that shall say so do.
	done chan struct{}

	mu    sync.Mutex
	gangs map[string]*gangTimes
	pods  map[string]podTimes
	// waiting is how many Pods do not run yet, untold how many GPUTasks do not say
	// yet that they run.
	waiting, untold int
	// lost counts Pods that were deleted.
	lost int
	// last is when anything happened last; ran is when the last Pod came to run, and
	// told when the last GPUTask said it.
	last, ran, told time.Time
}

// newTimeline expects gangs to be created at certain times after the start. told
// is true if their GPUTasks will say that they run.
func newTimeline(start time.Time, gangs []*gang, at []time.Duration, told bool) *timeline {
	t := &timeline{
		start: start, complete: make(chan int, len(gangs)), done: make(chan struct{}),
		gangs: map[string]*gangTimes{}, pods: map[string]podTimes{},
	}
	for i, g := range gangs {
		t.gangs[g.name()] = &gangTimes{index: i, size: g.size(), due: start.Add(at[i])}
		t.waiting += g.size()
	}
	if told {
		t.untold = len(gangs)
	}
	return t
}

// seePod notes an event about a Pod. Those of other gangs are passed over.
func (t *timeline) seePod(event watch.Event, now time.Time) {
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

// run notes that one more Pod of a gang runs.
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

// seeTask notes an event about a GPUTask. Others are passed over.
func (t *timeline) seeTask(event watch.Event, now time.Time) {
	task, ok := event.Object.(*v1.GPUTask)
	if !ok || task.Status.Phase != v1.PhaseRunning {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	gang := t.gangs[task.Name]
	if gang == nil || !gang.told.IsZero() {
		return
	}
	gang.told, t.last, t.told = now, now, now
	t.untold--
	t.end()
}

func (t *timeline) end() {
	if t.waiting == 0 && t.untold == 0 {
		close(t.done)
	}
}

// progress returns how many Pods run, of how many, and when anything happened
// last.
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
	if !t.told.IsZero() {
		o.Told = t.told.Sub(t.start).Seconds()
	}
	for _, gang := range t.gangs {
		o.Latencies = append(o.Latencies, gang.ran.Sub(gang.due).Seconds())
		o.BindLatencies = append(o.BindLatencies, gang.lastBound.Sub(gang.due).Seconds())
		o.Pauses = append(o.Pauses, gang.pause.Seconds())
		o.LongestSpread = max(o.LongestSpread, gang.lastBound.Sub(gang.firstBound).Seconds())
	}
	return o
}

// stages returns when half of the Pods and all of them had come to each stage.
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
