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

// discover finds the GPUs and adds them to the known ones.
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
	inventory := gpu.Inventory{Driver: s.driver(), NVLinks: s.nvLinks()}
	for _, device := range s.devices {
		known[device.info.UUID] = device
		inventory.GPUs = append(inventory.GPUs, device.info)
	}
	return inventory, nil
}

// restore puts GPUs that were there before in the place of those that can't be
// asked any more: a lost GPU does not even tell its UUID.
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
			s.Logger.Error(problem, "GPU left out: it can't be asked for its UUID", "index", index)
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

// take removes the GPU that had the index, or else the first, and returns a copy
// without the state of an earlier connection.
func take(missing *[]*device, index int) *device {
	if len(*missing) == 0 {
		return nil
	}
	place := max(0, slices.IndexFunc(*missing, func(d *device) bool { return d.info.Index == index }))
	found := (*missing)[place]
	*missing = slices.Delete(*missing, place, place+1)
	return &device{info: found.info, address: found.address}
}

// find describes the GPU with an index. What is known of it and the driver fails
// to tell this time stays known.
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

// describe fills in what does not change. What the driver does not tell stays as
// it is, unless it is because the GPU is lost.
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
			s.Logger.Info("The driver does not tell all of a GPU", "gpu", d.info.UUID, "call", fact.call, "reason", ret.Error())
			if !unsupported(ret) {
				d.missing = append(d.missing, fact)
			}
		}
	}
	d.info.NUMANode = numaNode(s.SysFS, d.info.PCIBusID)
	s.noteMIG(d)
	return nil
}

// noteMIG says that a GPU is cut into instances, which this agent does not hand
// out.
func (s *session) noteMIG(d *device) {
	if !s.symbols.has("nvmlDeviceGetMigMode") {
		return
	}
	if mode, _, ret := d.handle.GetMigMode(); ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE {
		s.Logger.Info("MIG is enabled: the GPU counts as a whole, and part of it can't be measured", "gpu", d.info.UUID)
	}
}

// driver tells the versions; what the driver does not tell stays empty.
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
