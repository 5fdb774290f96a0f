// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
	"tags.cncf.io/container-device-interface/specs-go"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

var beginning = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// fakeGenerator describes all GPUs but the lost ones.
type fakeGenerator struct {
	lost  map[string]bool
	err   error
	calls int
}

func (g *fakeGenerator) Generate(gpus []gpu.Info) (*specs.Spec, error) {
	g.calls++
	if g.err != nil {
		return nil, g.err
	}
	spec := NewSpec()
	for i := range gpus {
		for _, uuid := range gpus[i].Usable() {
			if !g.lost[uuid] {
				spec.Devices = append(spec.Devices, specs.Device{Name: uuid, ContainerEdits: specs.ContainerEdits{Env: []string{"GPU=" + uuid}}})
			}
		}
	}
	return spec, nil
}

// written is a Writer with what it depends on.
type written struct {
	*Writer
	t         *testing.T
	generator *fakeGenerator
	clock     *clocktesting.FakeClock
}

func newWritten(t *testing.T) *written {
	t.Helper()
	generator, clock := &fakeGenerator{lost: map[string]bool{}}, clocktesting.NewFakeClock(beginning)
	return &written{Writer: NewWriter(t.TempDir(), generator, clock), t: t, generator: generator, clock: clock}
}

// names returns the devices in the file.
func (w *written) names() []string {
	w.t.Helper()
	data, err := os.ReadFile(Path(w.dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		w.t.Fatalf("the file is no JSON: %v", err)
	}
	var names []string
	for i := range spec.Devices {
		names = append(names, spec.Devices[i].Name)
	}
	return names
}

func (w *written) wantNames(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.names()); diff != "" {
		w.t.Errorf("devices in the file (-want +got):\n%s", diff)
	}
}

func (w *written) update(snapshot *gpu.Snapshot) {
	w.t.Helper()
	if err := w.Update(snapshot); err != nil {
		w.t.Fatal(err)
	}
}

// snapshotOf returns a snapshot of healthy GPUs.
func snapshotOf(uuids ...string) *gpu.Snapshot {
	snapshot := &gpu.Snapshot{Taken: beginning, Driver: gpu.Driver{Version: "570"}}
	for i, uuid := range uuids {
		snapshot.Devices = append(snapshot.Devices, gpu.Device{Info: gpu.Info{Index: i, UUID: uuid}})
	}
	return snapshot
}

func TestTheFileFollowsTheGPUs(t *testing.T) {
	t.Parallel()
	w := newWritten(t)
	w.update(&gpu.Snapshot{})
	w.wantNames()
	if w.Started() {
		t.Error("without GPUs it has started")
	}
	w.update(snapshotOf("GPU-a", "GPU-b"))
	w.wantNames("GPU-a", "GPU-b")
	if !w.Has("GPU-a") || w.Has("GPU-c") {
		t.Errorf("GPU-a is described: %t, GPU-c: %t", w.Has("GPU-a"), w.Has("GPU-c"))
	}
	w.update(snapshotOf("GPU-b"))
	w.wantNames("GPU-b")
	if w.Has("GPU-a") {
		t.Error("a GPU that is gone counts as described")
	}
}

func TestAFileThatIsUpToDateIsNotWritten(t *testing.T) {
	t.Parallel()
	w := newWritten(t)
	w.update(snapshotOf("GPU-a"))
	before, err := os.Stat(Path(w.dir))
	if err != nil {
		t.Fatal(err)
	}
	changed := w.Changed()
	w.update(snapshotOf("GPU-a"))
	after, err := os.Stat(Path(w.dir))
	if err != nil || !os.SameFile(before, after) || w.generator.calls != 1 {
		t.Errorf("the file is another one: %t, described %d times, error %v", !os.SameFile(before, after), w.generator.calls, err)
	}
	select {
	case <-changed:
		t.Error("a change is reported")
	default:
	}
}

func TestTheGPUsAreDescribedAnew(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*gpu.Snapshot){
		"for another driver":                     func(s *gpu.Snapshot) { s.Driver.Version = "580" },
		"when the driver numbers them otherwise": func(s *gpu.Snapshot) { s.Devices[0].Minor = 7 },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWritten(t)
			w.update(snapshotOf("GPU-a"))
			changed := snapshotOf("GPU-a")
			change(changed)
			w.update(changed)
			if w.generator.calls != 2 {
				t.Errorf("described %d times, want twice", w.generator.calls)
			}
		})
	}
}

// Somebody who cleans up /var/run must not keep containers from starting for long.
func TestAFileThatIsGoneIsWrittenAgain(t *testing.T) {
	t.Parallel()
	w := newWritten(t)
	w.update(snapshotOf("GPU-a"))
	if err := os.Remove(Path(w.dir)); err != nil {
		t.Fatal(err)
	}
	w.update(snapshotOf("GPU-a"))
	w.wantNames("GPU-a")
}

func TestWithoutADriverTheFileStays(t *testing.T) {
	t.Parallel()
	w := newWritten(t)
	w.update(snapshotOf("GPU-a"))
	w.update(&gpu.Snapshot{Taken: beginning, Problem: gpu.ErrUnavailable})
	w.wantNames("GPU-a")
}

func TestAGPUThatCanNotBeDescribedDoesNotKeepTheOthers(t *testing.T) {
	t.Parallel()
	w := newWritten(t)
	w.generator.lost["GPU-b"] = true
	if err := w.Update(snapshotOf("GPU-a", "GPU-b")); err == nil || !strings.Contains(err.Error(), "GPU GPU-b can't be described") {
		t.Errorf("error %v", err)
	}
	w.wantNames("GPU-a")
	delete(w.generator.lost, "GPU-b")
	if err := w.Update(snapshotOf("GPU-a", "GPU-b")); err == nil || w.generator.calls != 1 {
		t.Errorf("at once it is described again: %d calls, error %v", w.generator.calls, err)
	}
	w.clock.Step(retryAfter)
	w.update(snapshotOf("GPU-a", "GPU-b"))
	w.wantNames("GPU-a", "GPU-b")
}

func TestAnUnhealthyGPUNeedsNoDescription(t *testing.T) {
	t.Parallel()
	w := newWritten(t)
	w.generator.lost["GPU-b"] = true
	snapshot := snapshotOf("GPU-a", "GPU-b")
	snapshot.Devices[1].Fault = &gpu.Fault{Reason: "Lost"}
	w.update(snapshot)
	w.update(snapshot)
	if w.generator.calls != 1 {
		t.Errorf("described %d times, want once", w.generator.calls)
	}
}

func TestADirectoryThatCanNotBeWritten(t *testing.T) {
	t.Parallel()
	w := newWritten(t)
	if err := os.WriteFile(w.dir+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.dir += "/file"
	changed := w.Changed()
	err := w.Update(snapshotOf("GPU-a"))
	select {
	case <-changed:
	default:
		t.Error("nobody learns that there was an attempt")
	}
	if err == nil || !strings.Contains(err.Error(), "see --cdi-spec-dir") || w.Has("GPU-a") || !w.Started() {
		t.Errorf("error %v, described %t, started %t", err, w.Has("GPU-a"), w.Started())
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	w := newWritten(t)
	w.update(snapshotOf("GPU-a"))
	if err := os.WriteFile(Path(w.dir)+".tmp", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also when it is gone already
		if err := Remove(w.dir); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(w.dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestTheFileFollowsTheSlices(t *testing.T) {
	t.Parallel()
	w := newWritten(t)
	snapshot := snapshotOf("GPU-a", "GPU-b")
	w.update(snapshot)
	w.wantNames("GPU-a", "GPU-b")
	divide := func(uuids ...string) *gpu.Snapshot {
		divided := snapshotOf("GPU-a", "GPU-b")
		divided.Devices[0].MIG = true
		for _, uuid := range uuids {
			divided.Devices[0].Slices = append(divided.Devices[0].Slices, gpu.Slice{UUID: uuid})
		}
		return divided
	}
	w.update(divide())
	w.wantNames("GPU-b")
	w.update(divide("MIG-a", "MIG-b"))
	w.wantNames("MIG-a", "MIG-b", "GPU-b")
	calls := w.generator.calls
	w.update(divide("MIG-a", "MIG-b"))
	if w.generator.calls != calls {
		t.Error("the same slices were described again")
	}
	w.generator.lost["MIG-c"] = true
	if err := w.Update(divide("MIG-a", "MIG-c")); err == nil || !strings.Contains(err.Error(), "GPU MIG-c can't be described") {
		t.Errorf("a slice that is not described: %v", err)
	}
	w.wantNames("MIG-a", "GPU-b")
}
