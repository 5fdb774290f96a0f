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

// eventCalls are the functions that watch needs. Only XIDs are asked for: a
// double-bit ECC error has an XID as well, and counts in gpu.ECCUncorrected.
var eventCalls = []string{
	"nvmlEventSetCreate", "nvmlEventSetWait", "nvmlEventSetFree", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents",
}

const (
	// waitMilliseconds is how long the driver is asked to wait for an event, and
	// so how long the end of a watch takes.
	waitMilliseconds = 1000
	// lostPause is how long to wait before the events of the other GPUs are
	// asked for when one is lost, which ends every wait at once.
	lostPause = 5 * time.Second
)

// watch reports XIDs until ctx or the session ends. If a GPU is lost meanwhile,
// it goes on with the others.
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
		s.Logger.Info("A GPU is lost, asking for the events of the others")
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
				s.tell(event, report)
			}
		case nvml.ERROR_TIMEOUT:
		default:
			return ret
		}
	}
	return nvml.SUCCESS
}

// tell reports an XID with its GPU's UUID.
func (s *session) tell(event nvml.EventData, report func(gpu.Event)) {
	uuid, ret := s.sender(event.Device)
	if ret == nvml.ERROR_GPU_IS_LOST {
		// One that is not ours, or Read would say that it is lost. It does not
		// concern all GPUs, which an event without a UUID does.
		s.Logger.Info("A lost GPU that is not in the inventory reports an error", "xid", event.EventData)
		return
	}
	report(gpu.Event{UUID: uuid, XID: event.EventData})
}

// sender returns the UUID of the GPU that an event is about. A lost GPU does not
// tell its own, so the handle is looked for first.
func (s *session) sender(handle nvml.Device) (string, nvml.Return) {
	if handle == nil {
		return "", nvml.SUCCESS
	}
	for _, device := range s.devices {
		if device.handle == handle {
			return device.info.UUID, nvml.SUCCESS
		}
	}
	uuid, ret := handle.GetUUID()
	if ret != nvml.SUCCESS { // an event that names no GPU has a handle that is not valid
		return "", ret
	}
	return uuid, ret
}

// eventSet asks for the XIDs of all GPUs that report any.
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
		// NVML calls the state of the set undefined after such an error.
		skipped[broken] = true
	}
}

// register adds the GPUs to the set, and stops at one that breaks it.
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
