// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// discover finds the GPUs and adds them to known.
func (s *session) discover(known map[string]*device) (gpu.Inventory, error) {
	count, ret := s.library.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return gpu.Inventory{}, callError("nvmlDeviceGetCount", ret)
	}
	s.count = count
	problems := map[int]error{}
	for index := range count {
		device, err := s.find(index, known)
		if err != nil {
			problems[index] = err
			continue
		}
		s.devices = append(s.devices, device)
	}
	if err := s.restore(known, problems); err != nil {
		return gpu.Inventory{}, err
	}
	s.readFabric() // before the links, which it brings up
	inventory := gpu.Inventory{Driver: s.driver(), NVLinks: s.nvLinks()}
	if s.AllVisible {
		inventory.OnBus = gpusOnBus(s.SysFS)
	}
	for _, device := range s.devices {
		known[device.info.UUID] = device
		inventory.GPUs = append(inventory.GPUs, device.info)
	}
	return inventory, nil
}

// restore replaces GPUs that no longer answer with those known from before: a lost GPU does
// not even return its UUID.
func (s *session) restore(known map[string]*device, problems map[int]error) error {
	var missing []*device
	for uuid, device := range known {
		if s.device(uuid) == nil {
			missing = append(missing, device)
		}
	}
	slices.SortFunc(missing, func(a, b *device) int { return cmp.Compare(a.info.Index, b.info.Index) })
	var unknown []error
	for index := range s.count {
		problem := problems[index]
		if problem == nil {
			continue
		}
		device := take(&missing, index)
		if device == nil {
			s.Logger.Error(problem, "Skipping a GPU whose UUID can't be read", "index", index)
			unknown = append(unknown, problem)
			continue
		}
		device.info.Index, device.problem = index, problem
		s.devices = append(s.devices, device)
	}
	slices.SortFunc(s.devices, func(a, b *device) int { return cmp.Compare(a.info.Index, b.info.Index) })
	if len(s.devices) == 0 {
		return errors.Join(unknown...) // nil without any GPU
	}
	return nil
}

// take removes the GPU that had the index, or else the first one, and returns a copy without
// the state of the previous connection.
func take(missing *[]*device, index int) *device {
	if len(*missing) == 0 {
		return nil
	}
	place := max(0, slices.IndexFunc(*missing, func(d *device) bool { return d.info.Index == index }))
	found := (*missing)[place]
	*missing = slices.Delete(*missing, place, place+1)
	return &device{info: found.info, address: found.address}
}

// find returns the GPU with an index. Facts that the driver fails to return this time are
// taken from known.
func (s *session) find(index int, known map[string]*device) (*device, error) {
	handle, ret := s.library.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return nil, callError(fmt.Sprintf("nvmlDeviceGetHandleByIndex(%d)", index), ret)
	}
	uuid, ret := handle.GetUUID()
	if ret != nvml.SUCCESS {
		return nil, callError(fmt.Sprintf("nvmlDeviceGetUUID of GPU %d", index), ret)
	}
	found := &device{handle: handle, info: gpu.Info{UUID: uuid, Minor: gpu.Unknown, NUMANode: gpu.Unknown}}
	if before := known[uuid]; before != nil {
		found.info, found.address = before.info, before.address
	}
	found.info.Index = index
	if err := s.describe(found); err != nil {
		return nil, err
	}
	return found, nil
}

// describe reads the facts of a GPU. It fails only if the GPU is lost; facts that the driver
// does not return stay as they are.
func (s *session) describe(d *device) error {
	for _, fact := range facts() {
		if !s.symbols.has(fact.call) {
			continue
		}
		ret := fact.read(d)
		if fatal(ret) {
			return callError(fact.call, ret)
		}
		if ret != nvml.SUCCESS {
			s.Logger.Info("The driver does not return a property of the GPU", "gpu", d.info.UUID, "call", fact.call, "reason", ret.Error())
			if !unsupported(ret) {
				d.missing = append(d.missing, fact)
			}
		}
	}
	d.info.NUMANode = numaNode(s.SysFS, d.info.PCIBusID)
	s.readMIG(d)
	return nil
}

// driver returns the versions; those that the driver does not return stay empty.
func (s *session) driver() gpu.Driver {
	var driver gpu.Driver
	version, ret := s.library.SystemGetDriverVersion()
	if ret == nvml.SUCCESS {
		driver.Version = version
	}
	if !s.symbols.has("nvmlSystemGetCudaDriverVersion") {
		return driver
	}
	if cuda, ret := s.library.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
		driver.CUDA = fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10)
	}
	return driver
}
