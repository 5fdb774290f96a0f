// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"context"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// eventCalls are the functions that watch needs. It registers for XIDs only: a double-bit ECC
// error has an XID as well, and counts in gpu.ECCUncorrected.
var eventCalls = []string{
	"nvmlEventSetCreate", "nvmlEventSetWait", "nvmlEventSetFree", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents",
}

const (
	// waitMilliseconds is how long one call waits for an event, and so how long it takes to
	// end a watch.
	waitMilliseconds = 1000
	// lostPause is how long to wait before watching the other GPUs when one is lost, which
	// makes every wait fail at once.
	lostPause = 5 * time.Second
)

// watch reports XIDs until ctx or the session ends. If a GPU is lost, it continues with the
// others.
func (s *session) watch(ctx context.Context, report func(gpu.Event)) error {
	if !s.events {
		return fmt.Errorf("events: %w by this driver", gpu.ErrUnsupported)
	}
	for {
		set, err := s.eventSet()
		if err != nil {
			return err
		}
		ret := s.deliver(ctx, set, report)
		if freed := set.Free(); freed != nvml.SUCCESS {
			s.Logger.Error(callError("nvmlEventSetFree", freed), "An event set remains")
		}
		switch {
		case closed(ctx.Done()):
			return nil
		case closed(s.closing):
			return errClosed()
		case ret != nvml.ERROR_GPU_IS_LOST:
			return callError("nvmlEventSetWait", ret)
		}
		s.Logger.Info("A GPU is lost, watching the others")
		select {
		case <-ctx.Done():
			return nil
		case <-s.closing:
			return errClosed()
		case <-s.Clock.After(lostPause):
		}
	}
}

func closed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// deliver reports events until waiting for them fails, or ctx or the session
// ends.
func (s *session) deliver(ctx context.Context, set nvml.EventSet, report func(gpu.Event)) nvml.Return {
	for !closed(ctx.Done()) && !closed(s.closing) {
		switch event, ret := set.Wait(waitMilliseconds); ret {
		case nvml.SUCCESS:
			if event.EventType == nvml.EventTypeXidCriticalError {
				s.reportXID(event, report)
			}
		case nvml.ERROR_TIMEOUT:
		default:
			return ret
		}
	}
	return nvml.SUCCESS
}

// reportXID reports an XID with its GPU's UUID.
func (s *session) reportXID(event nvml.EventData, report func(gpu.Event)) {
	uuid, ret := s.uuidOf(event.Device)
	if ret == nvml.ERROR_GPU_IS_LOST {
		// It is not one of ours, or Read would report it as lost. Without a UUID the event
		// would concern all GPUs.
		s.Logger.Info("A lost GPU that is not in the inventory reports an error", "xid", event.EventData)
		return
	}
	report(gpu.Event{UUID: uuid, XID: event.EventData})
}

// uuidOf returns the UUID of the GPU that an event is about. A lost GPU does not return its
// own, so the handle is looked up first.
func (s *session) uuidOf(handle nvml.Device) (string, nvml.Return) {
	if handle == nil {
		return "", nvml.SUCCESS
	}
	for _, device := range s.devices {
		if device.handle == handle {
			return device.info.UUID, nvml.SUCCESS
		}
	}
	return handle.GetUUID() // it fails for an event of no single GPU, whose handle is invalid
}

// eventSet returns a set that is registered for the XIDs of all GPUs that report any.
func (s *session) eventSet() (nvml.EventSet, error) {
	skipped := map[*device]bool{}
	for {
		set, ret := s.library.EventSetCreate()
		if ret != nvml.SUCCESS {
			return nil, callError("nvmlEventSetCreate", ret)
		}
		registered, broken := s.register(set, skipped)
		if broken == nil && registered > 0 {
			return set, nil
		}
		if freed := set.Free(); freed != nvml.SUCCESS {
			s.Logger.Error(callError("nvmlEventSetFree", freed), "An event set remains")
		}
		if broken == nil {
			return nil, fmt.Errorf("events: %w by any GPU that answers", gpu.ErrUnsupported)
		}
		// According to NVML the state of the set is undefined after such an error.
		skipped[broken] = true
	}
}

// register adds the GPUs to the set; it stops at one that breaks the set.
func (s *session) register(set nvml.EventSet, skipped map[*device]bool) (registered int, broken *device) {
	for _, device := range s.devices {
		if device.problem != nil || skipped[device] {
			continue
		}
		types, ret := device.handle.GetSupportedEventTypes()
		if ret != nvml.SUCCESS || types&nvml.EventTypeXidCriticalError == 0 {
			s.Logger.Info("The GPU reports no XIDs", "gpu", device.info.UUID, "reason", ret.Error())
			continue
		}
		switch ret := device.handle.RegisterEvents(nvml.EventTypeXidCriticalError, set); ret {
		case nvml.SUCCESS:
			registered++
		case nvml.ERROR_UNKNOWN:
			s.Logger.Error(callError("nvmlDeviceRegisterEvents", ret), "The GPU's XIDs won't be noticed", "gpu", device.info.UUID)
			return registered, device
		default:
			s.Logger.Error(callError("nvmlDeviceRegisterEvents", ret), "The GPU's XIDs won't be noticed", "gpu", device.info.UUID)
		}
	}
	return registered, nil
}
