// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	format "falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// writer writes the records. It is for one goroutine.
type writer struct {
	*Recorder
	// file is the open segment; nil if there is none. size is its size, and limit that at which a new one begins.
	file        io.WriteCloser
	size, limit int64
	// begun is the size of the segment's checkpoint, and records counts what follows it.
	begun   int64
	records int
	text    bytes.Buffer
	encoder *json.Encoder
	spare   []record
	// there follows the cluster, so that a checkpoint costs the scheduling cycle next to nothing.
	there shadow
	// shapes are those that were written.
	shapes map[*placement.Shape]*format.Shape
}

func newWriter(r *Recorder) *writer {
	w := &writer{Recorder: r, shapes: map[*placement.Shape]*format.Shape{}}
	w.encoder = json.NewEncoder(&w.text)
	w.encoder.SetEscapeHTML(false)
	return w
}

// Run writes what is recorded until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	w := newWriter(r)
	ticker := r.options.Clock.NewTicker(writePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			w.write()
			w.close()
			return
		case <-r.wake:
			w.write()
		case <-ticker.C():
			w.write()
		}
	}
}

// maxSpare is the largest buffer that is kept.
const maxSpare = 1 << 20

// write writes what there is. If it can't, nothing is recorded for a while.
func (w *writer) write() {
	taken := w.take(w.spare)
	err := w.writeAll(taken)
	if err == nil {
		err = w.flush()
	}
	clear(taken)
	w.spare = taken[:0]
	if w.text.Cap() > maxSpare {
		w.text = bytes.Buffer{}
	}
	switch {
	case err == nil:
		return
	case errors.Is(err, errFull):
		w.options.Logger.V(2).Info("A segment of the journal became larger than the journal may be; it is begun anew")
		w.text.Reset()
		w.close()
		w.stop(0)
		return
	}
	w.options.Metrics.errors.Inc()
	w.options.Logger.Error(err, "The journal of decisions can't be written; nothing is recorded for a while", "directory", w.options.Directory, "pause", pause)
	w.text.Reset()
	w.close()
	w.stop(pause)
}

func (w *writer) writeAll(records []record) error {
	for i := range records {
		one := &records[i]
		w.there.apply(one)
		if one.checkpoint != nil {
			if err := w.begin(one.checkpoint); err != nil {
				return err
			}
			continue
		}
		if w.file == nil {
			continue // it belongs to what could not be written
		}
		if err := w.encode(w.line(one)); err != nil {
			return err
		}
		w.records++
	}
	return nil
}

// fewRecords say too little about the size of the others.
const fewRecords = 50

// flushAt is how much text is written at once while there is more.
const flushAt = 1 << 18

func (w *writer) encode(line *format.Line) error {
	if err := w.encoder.Encode(line); err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	if w.text.Len() >= flushAt {
		return w.flush()
	}
	return nil
}

// flush writes the text to the segment: whole lines.
func (w *writer) flush() error {
	if w.file == nil || w.text.Len() == 0 {
		w.text.Reset()
		return nil
	}
	length := int64(w.text.Len())
	if err := w.ring.makeRoom(length); err != nil {
		return err
	}
	written, err := w.text.WriteTo(w.file)
	w.size += written
	w.ring.grow(written)
	w.options.Metrics.bytes.Set(float64(w.ring.total()))
	if err != nil {
		return err
	}
	if w.limit > 0 && w.records >= fewRecords {
		w.setPerSegment(int((w.limit - w.begun) * int64(w.records) / max(w.size-w.begun, 1)))
	}
	return nil
}

// begin begins a segment with a checkpoint.
func (w *writer) begin(c *checkpoint) error {
	if err := w.flush(); err != nil {
		return err
	}
	w.close()
	path := w.ring.next()
	file, err := w.options.create(path)
	if err != nil {
		return err
	}
	w.ring.add(path)
	w.file, w.size, w.limit, w.records = file, 0, 0, 0
	err = w.contents(c)
	if err == nil {
		err = w.flush()
	}
	if errors.Is(err, errFull) {
		return fmt.Errorf("the cluster does not fit into %d MiB: journal.maxMegabytes must be greater", w.options.MaxBytes>>20)
	}
	if err != nil {
		return err
	}
	if w.begun, w.limit = w.size, w.ring.limit(w.size); w.limit <= w.size {
		return fmt.Errorf("a checkpoint of this cluster has %d KiB: journal.maxMegabytes must be at least %d", w.size>>10, 2*w.size>>20+1)
	}
	return nil
}

// contents writes a checkpoint. What the changes add up to is compared with it.
func (w *writer) contents(c *checkpoint) error {
	head := &format.Checkpoint{
		Version: format.Version, Run: w.options.Run, Time: c.at, Changes: c.after, Decisions: c.decisions, Digest: c.digest.String(),
		Nodes: len(w.there.nodes), Pods: len(w.there.pods), Levels: w.options.Levels, Tolerance: w.options.Tolerance, Policy: format.Packing, Memory: format.MemoryOf(c.Memory),
	}
	if err := w.encode(&format.Line{Checkpoint: head}); err != nil {
		return err
	}
	found := format.Digest(0)
	for _, one := range w.there.sorted() {
		found.AddNode(one.Node)
		if err := w.encode(&format.Line{Node: format.NodeOf(one.Node)}); err != nil {
			return err
		}
	}
	for _, one := range w.there.pods {
		found.AddPod(one.Pod)
		if err := w.encode(&format.Line{Pod: podOf(&record{pod: one.Pod, holder: one.Holder, seat: one.Seat})}); err != nil {
			return err
		}
	}
	if found != c.digest {
		w.options.Logger.Error(nil, "The journal of decisions has missed a change of the cluster; please report it", "digest", c.digest, "cluster", found)
	}
	return nil
}

func (w *writer) close() {
	if w.file == nil {
		return
	}
	if err := w.file.Close(); err != nil {
		w.options.Logger.V(2).Info("A segment of the journal was not closed properly", "err", err)
	}
	w.file = nil
}

// line returns a record as it is written.
func (w *writer) line(one *record) *format.Line {
	line := &format.Line{N: one.n, Gone: one.gone, Left: one.left, Decision: one.decision}
	switch {
	case one.node != nil:
		line.Node = format.NodeOf(one.node)
	case one.pod != nil:
		line.Pod = podOf(one)
	case one.learned.shape != nil:
		line.Learned = &format.Learned{Shape: w.shapeOf(one.learned.shape), Ending: one.learned.ending}
	}
	return line
}

// maxShapes bounds the shapes that are kept as they are written.
const maxShapes = 1 << 10

// shapeOf returns a shape as it is written. The engine has one of equal ones.
func (w *writer) shapeOf(shape *placement.Shape) *format.Shape {
	if known := w.shapes[shape]; known != nil {
		return known
	}
	if len(w.shapes) >= maxShapes {
		clear(w.shapes)
	}
	written := format.ShapeOf(shape)
	w.shapes[shape] = written
	return written
}

// podOf returns a Pod as it is written, with its names.
func podOf(one *record) *format.Pod {
	pod := format.PodOf(one.pod)
	if holder := one.holder; holder != nil {
		pod.Pod, pod.Gang, pod.Seat = holder.Namespace+"/"+holder.Name, gangOf(holder), one.seat
	}
	return pod
}

// gangOf returns the namespace and name of the task or the gang that a Pod says it is in; empty if it says nothing.
func gangOf(pod *corev1.Pod) string {
	for _, label := range [...]string{v1.LabelTask, v1.LabelPodGroup} {
		if name := pod.Labels[label]; name != "" {
			return pod.Namespace + "/" + name
		}
	}
	return ""
}
