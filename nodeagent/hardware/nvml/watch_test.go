// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// wait is what one call of nvmlEventSetWait returns.
type wait struct {
	event nvml.EventData
	ret   nvml.Return
}

func xid(device nvml.Device, number uint64) wait {
	return wait{event: nvml.EventData{Device: device, EventType: nvml.EventTypeXidCriticalError, EventData: number}}
}

// eventful makes the GPUs report events: the answers of the driver are sent on
// the channel, in between it reports that no event came.
func (n *node) eventful() chan<- wait {
	waits := make(chan wait)
	for index := range n.Devices {
		n.gpu(index).GetSupportedEventTypesFunc = func() (uint64, nvml.Return) {
			return nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError, nvml.SUCCESS
		}
		n.gpu(index).RegisterEventsFunc = func(types uint64, _ nvml.EventSet) nvml.Return {
			n.called("register")
			if types != nvml.EventTypeXidCriticalError {
				return nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.SUCCESS
		}
	}
	n.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		n.called("create")
		freed := false
		return &mock.EventSet{
			WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
				if freed {
					panic("a freed event set is used")
				}
				select {
				case next := <-waits:
					return next.event, next.ret
				case <-time.After(time.Millisecond):
					return nvml.EventData{}, nvml.ERROR_TIMEOUT
				}
			},
			FreeFunc: func() nvml.Return {
				n.called("free")
				freed = true
				return nvml.SUCCESS
			},
		}, nvml.SUCCESS
	}
	return waits
}

// watching is a Watch that runs.
type watching struct {
	events chan gpu.Event
	result chan error
	stop   context.CancelFunc
}

func startWatch(t *testing.T, source *Source) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{events: make(chan gpu.Event, 100), result: make(chan error, 1), stop: cancel}
	go func() { w.result <- source.Watch(ctx, func(event gpu.Event) { w.events <- event }) }()
	return w
}

func (w *watching) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-w.result:
		return err
	case <-time.After(limit):
		t.Fatal("Watch does not return")
		return nil
	}
}

func (w *watching) expect(t *testing.T, want gpu.Event) {
	t.Helper()
	select {
	case got := <-w.events:
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("unexpected event (-want +got):\n%s", diff)
		}
	case err := <-w.result:
		t.Fatalf("Watch returned too early: %v", err)
	case <-time.After(limit):
		t.Fatal("no event")
	}
}

func TestWatch(t *testing.T) {
	node := newH100s(t, 2)
	waits := node.eventful()
	source := node.source(t)
	mustOpen(t, source)
	watch := startWatch(t, source)

	waits <- xid(node.gpu(1), 79)
	watch.expect(t, gpu.Event{UUID: "GPU-1", XID: 79})
	waits <- xid(nil, 13)
	watch.expect(t, gpu.Event{XID: 13})
	unknown := &mock.Device{GetUUIDFunc: func() (string, nvml.Return) { return "", nvml.ERROR_INVALID_ARGUMENT }}
	waits <- xid(unknown, 14)
	watch.expect(t, gpu.Event{XID: 14})
	newcomer := &mock.Device{GetUUIDFunc: func() (string, nvml.Return) { return "GPU-new", nvml.SUCCESS }}
	waits <- xid(newcomer, 15)
	watch.expect(t, gpu.Event{UUID: "GPU-new", XID: 15})
	stranger := &mock.Device{GetUUIDFunc: func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }}
	waits <- xid(stranger, 79)
	waits <- wait{event: nvml.EventData{Device: node.gpu(0), EventType: nvml.EventTypeDoubleBitEccError}}
	waits <- xid(node.gpu(0), 48)
	watch.expect(t, gpu.Event{UUID: "GPU-0", XID: 48})

	mustRead(t, source, "GPU-0") // at the same time
	watch.stop()
	if err := watch.end(t); err != nil {
		t.Errorf("unexpected error %v", err)
	}
	if node.count("register") != 2 || node.count("free") != 1 {
		t.Errorf("got %d GPUs registered, %d sets freed", node.count("register"), node.count("free"))
	}
}

func TestWatchGoesOnWithoutALostGPU(t *testing.T) {
	node := newH100s(t, 2)
	waits := node.eventful()
	source := node.source(t)
	mustOpen(t, source)
	watch := startWatch(t, source)
	waits <- xid(node.gpu(0), 79)
	watch.expect(t, gpu.Event{UUID: "GPU-0", XID: 79})
	waits <- wait{ret: nvml.ERROR_GPU_IS_LOST}
	node.awaitPause(t)
	node.gpu(0).GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
	node.clock.Step(lostPause)
	waits <- xid(node.gpu(1), 31)
	watch.expect(t, gpu.Event{UUID: "GPU-1", XID: 31})
	if node.count("create") != 2 || node.count("register") != 3 {
		t.Errorf("got %d sets with %d GPUs, want 2 with 2 and 1", node.count("create"), node.count("register"))
	}
	waits <- wait{ret: nvml.ERROR_GPU_IS_LOST}
	node.awaitPause(t)
	watch.stop()
	if err := watch.end(t); err != nil {
		t.Errorf("unexpected error %v", err)
	}
}

func (n *node) awaitPause(t *testing.T) {
	t.Helper()
	for start := time.Now(); !n.clock.HasWaiters(); time.Sleep(time.Millisecond) {
		if time.Since(start) > limit {
			t.Fatal("no pause")
		}
	}
}

func TestWatchFails(t *testing.T) {
	unsupported := func(ret nvml.Return) func(*node) {
		return func(n *node) {
			for index := range n.Devices {
				n.gpu(index).GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return 0, ret }
			}
		}
	}
	tests := []struct {
		name  string
		spoil func(*node)
		wait  nvml.Return
		want  error
	}{
		{name: "the library has no events", spoil: func(n *node) { n.without("nvmlEventSetCreate") }, want: gpu.ErrUnsupported},
		{name: "no GPU has XIDs", spoil: unsupported(nvml.SUCCESS), want: gpu.ErrUnsupported},
		{name: "all GPUs are lost", spoil: unsupported(nvml.ERROR_GPU_IS_LOST), want: gpu.ErrUnsupported},
		{name: "sets can't be created", want: gpu.ErrStale, spoil: func(n *node) {
			n.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return nil, nvml.ERROR_UNINITIALIZED }
		}},
		{name: "all GPUs break the set", want: gpu.ErrUnsupported, spoil: func(n *node) {
			for index := range n.Devices {
				n.gpu(index).RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.ERROR_UNKNOWN }
			}
		}},
		{name: "the connection is gone", wait: nvml.ERROR_UNINITIALIZED, want: gpu.ErrStale},
		{name: "another error", wait: nvml.ERROR_UNKNOWN, want: nvml.ERROR_UNKNOWN},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := newH100s(t, 2)
			waits := node.eventful()
			if test.spoil != nil {
				test.spoil(node)
			}
			source := node.source(t)
			mustOpen(t, source)
			watch := startWatch(t, source)
			if test.wait != nvml.SUCCESS {
				waits <- wait{ret: test.wait}
			}
			if err := watch.end(t); !errors.Is(err, test.want) {
				t.Errorf("got error %v, want %v", err, test.want)
			}
			if node.count("create") != node.count("free") {
				t.Errorf("%d event sets were created, %d freed", node.count("create"), node.count("free"))
			}
		})
	}
}

func TestAGPUThatBreaksTheSetIsLeftOut(t *testing.T) {
	node := newH100s(t, 2)
	waits := node.eventful()
	node.gpu(0).RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.ERROR_UNKNOWN }
	source := node.source(t)
	mustOpen(t, source)
	watch := startWatch(t, source)
	waits <- xid(node.gpu(1), 31)
	watch.expect(t, gpu.Event{UUID: "GPU-1", XID: 31})
	if node.count("create") != 2 {
		t.Errorf("got %d event sets, want 2", node.count("create"))
	}
}

func TestCloseEndsWatchBeforeItDisconnects(t *testing.T) {
	node := newH100s(t, 1)
	waits := node.eventful()
	source := node.source(t)
	mustOpen(t, source)
	shutdown := node.ShutdownFunc
	node.ShutdownFunc = func() nvml.Return {
		if node.count("free") != 1 {
			t.Error("nvmlShutdown was called while Watch used the library")
		}
		return shutdown()
	}
	watch := startWatch(t, source)
	waits <- xid(node.gpu(0), 1)
	watch.expect(t, gpu.Event{UUID: "GPU-0", XID: 1})
	if err := source.Close(); err != nil {
		t.Fatal(err)
	}
	if err := watch.end(t); !errors.Is(err, gpu.ErrStale) {
		t.Errorf("unexpected error %v", err)
	}
}
