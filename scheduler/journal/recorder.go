// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	format "falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// Options are what a Recorder needs.
type Options struct {
	// Directory is where the ring is, and MaxBytes bounds all its files together.
	Directory string
	MaxBytes  int64
	// Run identifies the process.
	Run string
	// Levels are the names of the levels of topology, and Tolerance is what a preference may cost.
	Levels    []string
	Tolerance float64
	Clock     clock.WithTicker
	Logger    klog.Logger
	// Metrics counts what happens; nil for nothing.
	Metrics *Metrics
	// create creates a file; os.OpenFile unless a test replaces it.
	create func(path string) (io.WriteCloser, error)
}

// Recorder records decisions, and the changes of the engine's cluster between them.
type Recorder struct {
	options Options
	ring    *ring
	// wake is signalled when the buffer should be written soon.
	wake chan struct{}
	// due is true while a checkpoint is needed.
	due atomic.Bool

	mu sync.Mutex
	// after counts the changes, digest is that of the cluster, and decisions is the number of the last decision.
	after     uint64
	digest    format.Digest
	decisions int
	// recording is true after a checkpoint, as long as nothing was dropped, and begun after the first one.
	recording, begun bool
	buffer           []record
	// since counts the records since the checkpoint, and perSegment is how many a segment is expected to have room for.
	since, perSegment int
	dropped           uint64
	// resumeAt is when recording may go on after a write has failed.
	resumeAt time.Time
}

const (
	// maxBuffered bounds the buffer. It is some seconds of the busiest scheduler.
	maxBuffered = 1 << 15
	// wakeAt is how many records are worth writing before the period is over.
	wakeAt = 1 << 11
	// writePeriod is how often is written what there is.
	writePeriod = 200 * time.Millisecond
	// typicalRecord is the size of a record until more is known, in bytes.
	typicalRecord = 1 << 10
	// pause is how long nothing is recorded after a write has failed.
	pause = time.Minute
)

// record is one line, or a checkpoint, that has yet to be written.
type record struct {
	n      uint64
	node   *placement.Node
	kind   int
	pod    *placement.Pod
	holder *corev1.Pod
	seat   bool
	// gone and left are names.
	gone, left string
	learned    learned
	decision   *format.Decision
	checkpoint *checkpoint
}

type learned struct {
	shape  *placement.Shape
	ending bool
}

// checkpoint is what the cluster had at a moment.
type checkpoint struct {
	*mirror.Contents
	at        time.Time
	after     uint64
	digest    format.Digest
	decisions int
}

var _ mirror.Recorder = (*Recorder)(nil)

// New returns a Recorder that continues the ring in a directory, which it creates if needed. Nothing is written before
// Run.
func New(options Options) (*Recorder, error) {
	if options.Metrics == nil {
		options.Metrics = newMetrics()
	}
	if options.create == nil {
		options.create = create
	}
	ring, err := openRing(options.Directory, options.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("the journal's directory: %w", err)
	}
	r := &Recorder{options: options, ring: ring, wake: make(chan struct{}, 1), decisions: ring.lastDecision()}
	r.perSegment = int(ring.limit(0) / typicalRecord)
	r.due.Store(true)
	return r, nil
}

// create creates a file that only this user can read.
func create(path string) (io.WriteCloser, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the administrator names the directory
}

// NodeSet implements mirror.Recorder.
func (r *Recorder) NodeSet(before, after *placement.Node, kind int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before != nil {
		r.digest.RemoveNode(before)
	}
	r.digest.AddNode(after)
	r.change(record{node: after, kind: kind})
}

// NodeRemoved implements mirror.Recorder.
func (r *Recorder) NodeRemoved(node *placement.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.digest.RemoveNode(node)
	r.change(record{gone: node.Name})
}

// PodPlaced implements mirror.Recorder.
func (r *Recorder) PodPlaced(pod *placement.Pod, holder *corev1.Pod, seat bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.digest.AddPod(pod)
	r.change(record{pod: pod, holder: holder, seat: seat})
}

// PodRemoved implements mirror.Recorder.
func (r *Recorder) PodRemoved(pod *placement.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.digest.RemovePod(pod)
	r.change(record{left: pod.Name})
}

// Learned implements mirror.Recorder.
func (r *Recorder) Learned(shape *placement.Shape, ending bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change(record{learned: learned{shape: shape, ending: ending}})
}

// change requires the lock.
func (r *Recorder) change(one record) {
	r.after++
	one.n = r.after
	r.add(one)
}

// add requires the lock.
func (r *Recorder) add(one record) {
	switch {
	case !r.recording:
		r.drop()
	case len(r.buffer) >= maxBuffered:
		r.recording = false // without this one, what follows can't be understood
		r.drop()
		r.due.Store(true)
	default:
		r.buffer = append(r.buffer, one)
		if r.since++; r.since == r.perSegment {
			r.due.Store(true)
		}
		if len(r.buffer) == wakeAt {
			select {
			case r.wake <- struct{}{}:
			default: // it has been signalled
			}
		}
	}
}

// drop requires the lock.
func (r *Recorder) drop() {
	if !r.begun {
		return // the first checkpoint will have it
	}
	r.dropped++
	r.options.Metrics.dropped.Inc()
}

// Due implements mirror.Recorder.
func (r *Recorder) Due() (due, all bool) {
	if !r.due.Load() {
		return false, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.buffer) < maxBuffered/2 && !r.options.Clock.Now().Before(r.resumeAt), !r.recording
}

// Checkpoint implements mirror.Recorder.
func (r *Recorder) Checkpoint(contents *mirror.Contents) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due.Store(false)
	r.recording, r.begun, r.since = true, true, 0
	r.add(record{checkpoint: &checkpoint{
		Contents: contents, at: r.options.Clock.Now(), after: r.after, digest: r.digest, decisions: r.decisions,
	}})
}

// Position is a moment between two changes.
type Position struct {
	// After is the number of the last change.
	After  uint64
	Digest format.Digest
}

// Position returns the present one. It is that of the engine's cluster while the mirror is locked.
func (r *Recorder) Position() Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Position{After: r.after, Digest: r.digest}
}

// Decided records a decision, which gets its number. It must not be changed any more.
func (r *Recorder) Decided(d *format.Decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decisions++
	d.Number, d.Run = r.decisions, r.options.Run
	r.options.Metrics.decisions.Inc()
	r.add(record{decision: d})
}

// Dropped returns how many records were dropped.
func (r *Recorder) Dropped() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}

// take takes what has yet to be written. The buffer goes on in spare.
func (r *Recorder) take(spare []record) []record {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.buffer
	r.buffer = spare
	return taken
}

// setPerSegment sets how many records a segment is expected to have room for.
func (r *Recorder) setPerSegment(records int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.perSegment = max(records, 1); r.since >= r.perSegment {
		r.due.Store(true)
	}
}

// stop drops what has yet to be written, and stops recording for a while.
func (r *Recorder) stop(pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped += uint64(len(r.buffer))
	r.options.Metrics.dropped.Add(float64(len(r.buffer)))
	clear(r.buffer)
	r.buffer, r.recording, r.resumeAt = r.buffer[:0], false, r.options.Clock.Now().Add(pause)
	r.due.Store(true)
}
