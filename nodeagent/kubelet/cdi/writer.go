// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"tags.cncf.io/container-device-interface/specs-go"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/pkg/durable"
)

// retryAfter is how long the GPUs that could not be described are not described again:
// looking for the driver's files takes a while.
const retryAfter = 30 * time.Second

// mode is that of the files: the runtime may run as another user.
const mode = 0o644

// Writer keeps the specification's file in line with the GPUs of the node. One goroutine
// may call Update; Has and Changed may be called by any.
type Writer struct {
	owner     Owner
	dir       string
	generator Generator
	clock     clock.Clock

	// Used by Update only: what was described last, its content, why that failed, and when.
	basis    []gpu.Info
	driver   gpu.Driver
	content  []byte
	problem  error
	failedAt time.Time

	mu sync.Mutex
	// described are the GPUs and slices in the file; nil before the first attempt to describe any.
	described map[string]bool
	changed   chan struct{}
}

// NewWriter returns a Writer of the agent's file in a directory.
func NewWriter(dir string, generator Generator, c clock.Clock) *Writer {
	return NewWriterOf(Agent(), dir, generator, c)
}

// NewWriterOf returns a Writer of an owner's file in a directory.
func NewWriterOf(owner Owner, dir string, generator Generator, c clock.Clock) *Writer {
	return &Writer{owner: owner, dir: dir, generator: generator, clock: c, changed: make(chan struct{})}
}

// Path returns the path of the agent's file in a directory.
func Path(dir string) string { return Agent().Path(dir, Class) }

// Has reports whether the file describes a GPU or a slice, so that a container can get it.
func (w *Writer) Has(uuid string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.described[uuid]
}

// Started reports whether there has been an attempt to describe GPUs.
func (w *Writer) Started() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.described != nil
}

// Changed returns a channel that is closed after the next attempt to describe GPUs.
func (w *Writer) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// Update describes the GPUs of a snapshot anew if they, or the driver, have changed, and
// repairs the file if somebody else has changed or removed it. It returns why not all
// healthy GPUs are described.
func (w *Writer) Update(snapshot *gpu.Snapshot) error {
	if !snapshot.Answered() {
		return nil // running containers keep what they have
	}
	if gpus := infosOf(snapshot); w.isOutdated(snapshot, gpus) {
		if w.problem != nil && w.clock.Since(w.failedAt) < retryAfter {
			return w.problem
		}
		if w.problem = w.describe(snapshot, gpus); w.problem != nil {
			w.failedAt = w.clock.Now()
			return w.problem
		}
	}
	return w.write()
}

func infosOf(snapshot *gpu.Snapshot) []gpu.Info {
	gpus := make([]gpu.Info, len(snapshot.Devices))
	for i := range snapshot.Devices {
		gpus[i] = snapshot.Devices[i].Info
	}
	return gpus
}

// isOutdated reports whether the GPUs have to be described anew: others are there, the
// driver is another one, or a healthy one is not described.
func (w *Writer) isOutdated(snapshot *gpu.Snapshot, gpus []gpu.Info) bool {
	return w.content == nil || w.driver != snapshot.Driver || !slices.EqualFunc(gpus, w.basis, gpu.Info.Same) || w.missing(snapshot) != nil
}

// missing returns an error that names what of healthy GPUs is not described.
func (w *Writer) missing(snapshot *gpu.Snapshot) error {
	var problems []error
	for i := range snapshot.Devices {
		device := &snapshot.Devices[i]
		if !device.Healthy() {
			continue
		}
		for _, uuid := range device.Usable() {
			if !w.Has(uuid) {
				problems = append(problems, fmt.Errorf("GPU %s can't be described for the container runtime", uuid))
			}
		}
	}
	return errors.Join(problems...)
}

// describe describes the GPUs and writes the file. If that fails, the file stays as it is.
func (w *Writer) describe(snapshot *gpu.Snapshot, gpus []gpu.Info) error {
	spec, err := w.rewrite(gpus)
	if err != nil {
		w.publish(&specs.Spec{})
		return err
	}
	w.driver, w.basis = snapshot.Driver, gpus
	w.publish(spec)
	return w.missing(snapshot)
}

// rewrite writes the file with the description of these GPUs.
func (w *Writer) rewrite(gpus []gpu.Info) (*specs.Spec, error) {
	w.content = nil
	spec, err := w.generator.Generate(gpus)
	if err != nil {
		return nil, fmt.Errorf("describing the GPUs for the container runtime (CDI): %w", err)
	}
	spec.Kind = w.owner.Kind(Class)
	if w.content, err = json.MarshalIndent(spec, "", "  "); err != nil {
		return nil, fmt.Errorf("describing the GPUs for the container runtime (CDI): %w", err)
	}
	return spec, w.write()
}

func (w *Writer) publish(spec *specs.Spec) {
	described := make(map[string]bool, len(spec.Devices))
	for i := range spec.Devices {
		described[spec.Devices[i].Name] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.described = described
	close(w.changed)
	w.changed = make(chan struct{})
}

// write writes the file unless it has the content already. Runtimes read it at any time, so
// it is replaced as a whole.
func (w *Writer) write() error {
	path := w.owner.Path(w.dir, Class)
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, w.content) { //nolint:gosec // an administrator chooses the directory
		return nil
	}
	if err := os.MkdirAll(w.dir, 0o755); err != nil { //nolint:gosec // the runtime may run as another user
		return fmt.Errorf("the CDI specification can't be written: %w; see --cdi-spec-dir", err)
	}
	if err := durable.Replace(path, w.content, mode); err != nil {
		return fmt.Errorf("the CDI specification can't be written: %w; see --cdi-spec-dir", err)
	}
	return nil
}

// Writable returns why the agent's file can't be written to a directory, or nil.
func Writable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the runtime may run as another user
		return err
	}
	temporary := Path(dir) + durable.Unfinished
	if err := os.WriteFile(temporary, nil, 0o600); err != nil {
		return err
	}
	return os.Remove(temporary)
}

// Remove removes the agent's file from a directory, if it is there, and what a Writer that was
// killed may have left.
func Remove(dir string) error { return durable.Remove(Path(dir), Path(dir)+durable.Unfinished) }
