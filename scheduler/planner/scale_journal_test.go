// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/placement"
	recorder "falldio.github.io/gpu-controller/scheduler/journal"
)

// This benchmark is run by bench/schedulerscale --journal. The variable names the file for the results.
const journalVariable = "SCHEDULERSCALE_JOURNAL"

// journalResults are the results, as bench/schedulerscale reads them.
type journalResults struct {
	Nodes, Pods int
	// Turns are small Pods that got a place, without and with the journal, in turns.
	Turns []journalTurn
	// BytesPerPod is how much was written for a Pod that got a place, without checkpoints, CheckpointBytes the size of
	// the first checkpoint, and Dropped how many records were dropped.
	BytesPerPod, CheckpointBytes float64
	Dropped                      uint64
	// PauseMilliseconds is how long a cycle waits while the first checkpoint is taken, and CheckpointMilliseconds the
	// CPU time that it takes altogether.
	PauseMilliseconds, CheckpointMilliseconds float64
}

// journalTurn is a turn without the journal, and the next one with it, or the other way round.
type journalTurn struct{ Off, On journalRate }

// journalRate is what one Pod took: time, CPU time of the scheduling cycles and of the whole process, and memory that
// was allocated.
type journalRate struct{ Microseconds, CPUMicroseconds, ProcessMicroseconds, AllocatedBytes float64 }

// turnLength is short, so that what else the machine does disturbs a turn and the next one alike.
const turnLength = 300 * time.Millisecond

// TestScaleWithAJournal measures what the journal costs, in turns within one process.
func TestScaleWithAJournal(t *testing.T) {
	path := os.Getenv(journalVariable)
	if path == "" {
		t.Skipf("%s is not set: run bench/schedulerscale --journal", journalVariable)
	}
	size, turns := defaultScale(), 300
	if text := os.Getenv("SCHEDULERSCALE_PART"); text != "" {
		part, err := strconv.Atoi(text)
		if err != nil || part < 1 {
			t.Fatalf("SCHEDULERSCALE_PART: must be a number from 1, is %q", text)
		}
		size.nodes, size.seconds, turns = size.nodes/part, max(1, size.seconds/part), max(1, turns/part)
	}
	runtime.LockOSThread()
	r := newScaleRun(t, size)
	r.throughput() // a first time, which does not count
	results := journalResults{Nodes: size.nodes, Pods: size.nodes * podsPerNode}
	switched, stop := r.journals(&results)
	background := r.background()
	begin, next := sizeOf(t, switched.directory), 0
	for i := range turns {
		var turn journalTurn
		off := func() { turn.Off, _ = r.turn(switched, false) }
		on := func() {
			var placed int
			turn.On, placed = r.turn(switched, true)
			next += placed
		}
		if i%2 == 0 {
			off()
			on()
		} else {
			on()
			off()
		}
		results.Turns = append(results.Turns, turn)
	}
	background()
	results.Dropped = stop()
	results.BytesPerPod = (sizeOf(t, switched.directory) - begin) / float64(next)
	text, err := json.Marshal(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(r)
}

// turn places small Pods for a while, as throughput does, and returns how many.
func (r *scaleRun) turn(journal *switchedRecorder, on bool) (rate journalRate, placed int) {
	r.t.Helper()
	if journal.on = on; on {
		r.decisions.recorder = journal.Recorder
	} else {
		r.decisions.recorder = nil
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, process, begin := threadTime(r.t), processTime(r.t), time.Now()
	for time.Since(begin) < turnLength {
		for ; r.backlog < backlog; r.backlog++ {
			r.arrive()
		}
		if r.cycle(r.queue.pop()) {
			r.end()
			placed++
			r.backlog--
		}
	}
	elapsed, cpuTime, processed := time.Since(begin), threadTime(r.t)-cpu, processTime(r.t)-process
	runtime.ReadMemStats(&after)
	per := func(sum float64) float64 { return sum / float64(max(placed, 1)) }
	return journalRate{
		Microseconds: per(float64(elapsed.Microseconds())), CPUMicroseconds: per(cpuTime * 1e6), ProcessMicroseconds: per(float64(processed.Microseconds())),
		AllocatedBytes: per(float64(after.TotalAlloc - before.TotalAlloc)),
	}, placed
}

// processTime returns the CPU time of this process.
func processTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// switchedRecorder is a recorder that can be switched off and on again. What it then records does not add up, and costs
// the same.
type switchedRecorder struct {
	*recorder.Recorder
	directory string
	on        bool
}

func (s *switchedRecorder) NodeSet(before, after *placement.Node, kind int) {
	if s.on {
		s.Recorder.NodeSet(before, after, kind)
	}
}

func (s *switchedRecorder) PodPlaced(pod *placement.Pod, holder *corev1.Pod, seat bool) {
	if s.on {
		s.Recorder.PodPlaced(pod, holder, seat)
	}
}

func (s *switchedRecorder) PodRemoved(pod *placement.Pod) {
	if s.on {
		s.Recorder.PodRemoved(pod)
	}
}

func (s *switchedRecorder) Learned(shape *placement.Shape, ending bool) {
	if s.on {
		s.Recorder.Learned(shape, ending)
	}
}

func (s *switchedRecorder) Due() (due, all bool) {
	if !s.on {
		return false, false
	}
	return s.Recorder.Due()
}

// journals records decisions until it is stopped, and then returns how many records were dropped.
func (r *scaleRun) journals(results *journalResults) (journal *switchedRecorder, stop func() uint64) {
	r.t.Helper()
	directory := r.t.TempDir()
	in, err := recorder.New(recorder.Options{
		Directory: directory, MaxBytes: 4 << 30, Run: "scale", Levels: r.args.Levels().Names(), Clock: clock.RealClock{}, Logger: klog.Logger{},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	journal = &switchedRecorder{Recorder: in, directory: directory, on: true}
	r.decisions.recorder = in
	r.mirror.Record(journal)
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		in.Run(ctx)
	}()
	cpu, begin := processTime(r.t), time.Now()
	r.mirror.Refresh(r.list)
	results.PauseMilliseconds = time.Since(begin).Seconds() * 1000
	for last := 0.0; last == 0 || last != sizeOf(r.t, directory); time.Sleep(500 * time.Millisecond) { // the first checkpoint is written
		last = sizeOf(r.t, directory)
	}
	results.CheckpointMilliseconds, results.CheckpointBytes = (processTime(r.t)-cpu).Seconds()*1000, sizeOf(r.t, directory)
	return journal, func() uint64 {
		r.decisions.recorder = nil
		r.mirror.Record(nil)
		cancel()
		<-done
		return in.Dropped()
	}
}

func sizeOf(tb testing.TB, directory string) (sum float64) {
	tb.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		tb.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			tb.Fatal(err)
		}
		sum += float64(info.Size())
	}
	return sum
}
