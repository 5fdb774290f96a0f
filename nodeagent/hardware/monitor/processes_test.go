// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

// withProcesses is a Source of which each GPU has a process with the ID of its index.
type withProcesses struct {
	*simulation.Source
	// err is what Processes returns.
	err error
}

func (s withProcesses) Processes(uuid string) (*gpu.ProcessSample, error) {
	for index := range 8 {
		if s.err == nil && uuidOf(index) == uuid {
			return &gpu.ProcessSample{Processes: []gpu.Process{{PID: index}}}, nil
		}
	}
	return nil, s.err
}

func TestProcessesAreReadWhereTheyAreWanted(t *testing.T) {
	t.Parallel()
	only := func(uuid string) bool { return uuid == uuidOf(3) }
	tests := map[string]struct {
		wanted func(string) bool
		err    error
		fault  simulation.Kind
		// want are the GPUs whose processes are known.
		want   []int
		failed uint64
	}{
		"nowhere":                   {},
		"on one GPU":                {wanted: only, want: []int{3}},
		"not on a GPU that is lost": {wanted: only, fault: simulation.Lost},
		"the source can't":          {wanted: only, err: gpu.ErrUnsupported},
		"it fails, which is no failure of the GPU": {wanted: only, err: errors.New("no"), failed: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.monitor.config.Source = withProcesses{f.source, test.err}
			f.monitor.config.Processes = test.wanted
			if test.fault != "" {
				f.inject(simulation.Fault{GPU: new(3), Fault: test.fault})
			}
			f.poll()
			var known []int
			for _, device := range f.monitor.Snapshot().Devices {
				if device.Processes != nil {
					known = append(known, device.Processes.Processes[0].PID)
				}
				if test.err != nil && (!device.Healthy() || device.Values == nil) {
					t.Errorf("GPU %d: fault %v, values %v", device.Index, device.Fault, device.Values)
				}
			}
			if diff := cmp.Diff(test.want, known); diff != "" {
				t.Errorf("GPUs with processes (-want +got):\n%s", diff)
			}
			if failed := f.monitor.Statistics().FailedProcesses; failed != test.failed {
				t.Errorf("%d failures, want %d", failed, test.failed)
			}
		})
	}
}

func TestASourceWithoutProcesses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.monitor.config.Processes = func(string) bool { return true }
	f.poll() // hooked hides that the simulation has them
	if device := f.monitor.Snapshot().Devices[0]; device.Processes != nil || device.Values == nil {
		t.Errorf("%+v", device)
	}
}
