// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

// fault makes GPU 2 report an XID and publishes it. The driver requires nothing afterwards.
func (f *fixture) fault() {
	f.Helper()
	f.inject(simulation.Fault{GPU: new(2), Fault: simulation.RecoveryAction, Action: "None"})
	f.polls(1)
	f.inject(simulation.Fault{GPU: new(2), Fault: simulation.XID, XID: 94})
	f.deliver()
	f.polls(1)
}

// deliver delivers the XIDs that have been injected.
func (f *fixture) deliver() {
	f.Helper()
	ctx, cancel := f.withTimeout()
	defer cancel()
	changed := f.monitor.Changed()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		f.monitor.Watch(ctx)
	}()
	select {
	case <-changed:
	case <-ctx.Done():
		f.Fatal("the XID was not reported")
	}
	cancel()
	<-watched
}

func TestFaultsAreCountedOverRestartsOfTheAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, moving)
	const heal = 100 // polls, which take longer than the recovery period
	f.restart()
	for range 2 {
		f.fault()
		f.expectLabel("falldio.com/gpu-health", "Degraded")
		f.polls(heal)
		f.expectLabel("falldio.com/gpu-health", "Healthy")
		f.watch()
		f.restart()
	}
	f.fault()
	f.polls(2 * heal)
	f.expectLabel("falldio.com/gpu-health", "Degraded")
	f.watch()
	f.restart()
	f.polls(heal)
	if fault := f.monitor.Snapshot().Devices[2].Fault; fault == nil || fault.Repeated != "3 times in 24h" || !fault.NeedsReset {
		t.Errorf("the fault is %+v", fault)
	}
	f.inject(simulation.Fault{GPU: new(2), Fault: simulation.Recovered})
	f.polls(heal)
	f.expectLabel("falldio.com/gpu-health", "Healthy")
}
