// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	"falldio.github.io/gpu-controller/nodeagent/node/publish"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// endlessWatch is a Source whose Watch does not end, as in a driver that hangs.
type endlessWatch struct {
	gpu.Source
	begun, end chan struct{}
}

func (s *endlessWatch) Watch(context.Context, func(gpu.Event)) error {
	close(s.begun)
	<-s.end
	return nil
}

// fitsOnce is a Source whose library fits the driver only the first time.
type fitsOnce struct {
	gpu.Source
	opened bool
}

func (s *fitsOnce) Open() (gpu.Inventory, error) {
	if s.opened {
		return gpu.Inventory{}, errors.Join(gpu.ErrUnavailable, gpu.ErrRestart)
	}
	s.opened = true
	return s.Source.Open()
}

func (s *fitsOnce) Read(string) (gpu.Sample, error) { return gpu.Sample{}, gpu.ErrStale }

// newTestAgent returns an agent that publishes nothing: its Node is unknown.
func newTestAgent(source gpu.Source, clock *clocktesting.FakeClock) *agent {
	a := &agent{
		node: "node-1", clock: clock, restored: make(chan struct{}), view: publish.NewView(),
		monitor: monitor.New(monitor.Config{Source: source, Clock: clock, Policy: health.DefaultPolicy(), Deadline: time.Second}),
	}
	config := publish.Config{Node: a.node, GPUs: a.monitor, Nodes: a.view, Clock: clock}
	a.publisher, a.events = publish.New(config), publish.NewEventWriter(config, record.NewFakeRecorder(1))
	a.condition = publish.NewConditionWriter(config, nil) // there is no Node whose condition could be read
	return a
}

func startAgent(ctx context.Context, a *agent) <-chan error {
	synced := make(chan struct{})
	close(synced)
	ended := make(chan error, 1)
	go func() { ended <- a.run(ctx, synced) }()
	return ended
}

const limit = 10 * time.Second

func await[T any](t *testing.T, what string, channel <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-channel:
	case <-time.After(limit):
		t.Fatalf("not within %v: %s", limit, what)
	}
	return value
}

func TestAWatchThatHangsDoesNotKeepTheAgentFromEnding(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	source := &endlessWatch{
		Source: simulation.New(simulation.Default(), "node-1", clock), begun: make(chan struct{}), end: make(chan struct{}),
	}
	defer close(source.end)
	a := newTestAgent(source, clock)
	ctx, cancel := context.WithCancel(t.Context())
	ended := startAgent(ctx, a)
	a.monitor.Poll(ctx)
	await(t, "the watch begins", source.begun)
	cancel()
	if err := await(t, "the agent ends", ended); err != nil {
		t.Errorf("unexpected error %v", err)
	}
}

func TestALibraryThatNoLongerFitsEndsTheAgent(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	a := newTestAgent(&fitsOnce{Source: simulation.New(simulation.Default(), "node-1", clock)}, clock)
	ended := startAgent(t.Context(), a)
	a.monitor.Poll(t.Context())
	a.monitor.Poll(t.Context())
	if err := await(t, "the agent ends", ended); !errors.Is(err, gpu.ErrRestart) {
		t.Errorf("unexpected error %v", err)
	}
}

// The file is damaged: what the Node says counts, once it is known.
func TestADamagedFileRestoresNothing(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	a := newTestAgent(simulation.New(simulation.Default(), "node-1", clock), clock)
	path := filepath.Join(t.TempDir(), keptFile)
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.keeper = publish.NewKeeper(path, labels.Options{})
	published := inventory.Inventory{GPUs: []inventory.GPU{{
		UUID: simulation.UUID("node-1", 3), Health: inventory.Unhealthy, Fault: &inventory.Fault{Reason: "XID79", NeedsReset: true},
	}}}
	text, err := published.String()
	if err != nil {
		t.Fatal(err)
	}
	synced, restored := make(chan struct{}), make(chan bool, 1)
	go func() { restored <- a.restore(t.Context(), synced) }()
	eventually(t, "the agent waits for the API server", clock.HasWaiters)
	clock.Step(keptAfter)
	eventually(t, "it waits no longer", func() bool { return !clock.HasWaiters() })
	a.view.See(&metav1.ObjectMeta{Name: "node-1", UID: "u", Annotations: map[string]string{inventory.Annotation: text}})
	close(synced)
	await(t, "the agent has restored what the Node says", restored)
	a.monitor.Poll(t.Context())
	if device := a.monitor.Snapshot().Devices[3]; device.Healthy() || device.Fault.Reason != "XID79" {
		t.Errorf("GPU 3 is offered with the fault %+v", device.Fault)
	}
}

// neverSynced is an API server that does not answer.
var neverSynced = make(chan struct{})

func TestFaultsAreKnownWithoutTheAPIServer(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	path := filepath.Join(t.TempDir(), keptFile)
	start := func(synced <-chan struct{}) (*agent, *simulation.Source, func()) {
		source := simulation.New(simulation.Default(), "node-1", clock)
		a := newTestAgent(source, clock)
		a.keeper = publish.NewKeeper(path, labels.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.run(ctx, synced) }()
		a.monitor.Poll(ctx)
		return a, source, func() {
			cancel()
			if err := await(t, "the agent ends", ended); err != nil {
				t.Error(err)
			}
		}
	}
	synced := make(chan struct{})
	close(synced)
	first, source, stop := start(synced)
	await(t, "the first agent has restored what there was", first.restored)
	if err := source.Inject(simulation.Fault{GPU: new(3), Fault: simulation.XID, XID: 79}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fault is kept", func() bool {
		first.monitor.Poll(t.Context())
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "XID79")
	})
	stop()
	second, _, stop := start(neverSynced)
	defer stop()
	eventually(t, "the second agent waits for the API server", clock.HasWaiters)
	clock.Step(keptAfter)
	await(t, "the second agent has restored what was kept", second.restored)
	if device := second.monitor.Snapshot().Devices[3]; device.Healthy() || device.Fault.Reason != "XID79" || !device.Fault.NeedsReset {
		t.Errorf("GPU 3 is offered with the fault %+v", device.Fault)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, limit, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("not within %v: %s", limit, what)
	}
}
