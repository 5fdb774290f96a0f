// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

// onBus is a Source that finds a number of GPUs on the bus.
type onBus struct {
	gpu.Source
	count int
}

func (s onBus) Open() (gpu.Inventory, error) {
	inventory, err := s.Source.Open()
	inventory.OnBus = s.count
	return inventory, err
}

func TestMissingGPUs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		expected, onBus int
		fault           simulation.Fault
		want            int
	}{
		"nothing is expected":                  {fault: simulation.Fault{GPU: new(7), Fault: simulation.Removed}},
		"all are there":                        {expected: 8, onBus: 8, fault: simulation.Fault{Fault: simulation.ECC}},
		"fewer than expected":                  {expected: 8, fault: simulation.Fault{GPU: new(7), Fault: simulation.Removed}, want: 1},
		"fewer than on the bus":                {onBus: 8, fault: simulation.Fault{GPU: new(7), Fault: simulation.Removed}, want: 1},
		"fewer than both":                      {expected: 10, onBus: 8, fault: simulation.Fault{GPU: new(7), Fault: simulation.Removed}, want: 3},
		"more than expected":                   {expected: 4, fault: simulation.Fault{Fault: simulation.ECC}},
		"none at all":                          {expected: 8, fault: simulation.Fault{Fault: simulation.Removed}, want: 8},
		"a lost one is not missing but broken": {expected: 8, fault: simulation.Fault{GPU: new(7), Fault: simulation.Lost}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.inject(test.fault)
			f.monitor.config.Source = onBus{f.source, test.onBus}
			f.monitor.connection.source = f.monitor.config.Source
			f.monitor.config.ExpectedGPUs = test.expected
			f.monitor.Restore(nil) // which publishes a snapshot
			if missing := f.monitor.Snapshot().Missing; missing != 0 {
				t.Errorf("%d are missing before the first poll", missing)
			}
			f.poll()
			if missing := f.monitor.Snapshot().Missing; missing != test.want {
				t.Errorf("%d are missing, want %d", missing, test.want)
			}
		})
	}
}

func TestNothingIsMissingWithoutADriver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.monitor.config.ExpectedGPUs = 9
	f.poll()
	f.calls.fail(gpu.ErrUnavailable, gpu.ErrStale)
	f.poll()
	f.poll()
	if snapshot := f.monitor.Snapshot(); snapshot.Missing != 0 || snapshot.Problem == nil {
		t.Errorf("%d are missing, the problem is %v", snapshot.Missing, snapshot.Problem)
	}
}
