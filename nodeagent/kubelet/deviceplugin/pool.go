// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/allocation"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// Device is one device of a resource.
type Device struct {
	// ID identifies the device to the kubelet, with at most 63 characters; for a GPU that
	// can be shared at most 57, since the IDs of its shares are longer.
	ID      string
	Healthy bool
	// MemoryMiB is all of a GPU's memory; 0 if unknown.
	MemoryMiB int64
	// NVLinkGroup is the same number for GPUs that reach each other over NVLink,
	// or allocation.Unknown.
	NVLinkGroup int
	// NUMANode is the NUMA node that the device is attached to, or allocation.Unknown.
	NUMANode int
}

// Counted returns devices that only have a name: name-0, name-1, …
func Counted(name string, count int) []Device {
	devices := make([]Device, count)
	for number := range devices {
		devices[number] = Device{
			ID: name + "-" + strconv.Itoa(number), Healthy: true,
			NVLinkGroup: allocation.Unknown, NUMANode: allocation.Unknown,
		}
	}
	return devices
}

// Pool is the devices of a resource. A device leaves it only by Release: one that has
// disappeared is unhealthy until it is back.
type Pool struct {
	mu      sync.Mutex
	present []Device
	links   [][]int
	// absent are devices that have disappeared, in the order of their IDs.
	absent  []Device
	set     bool
	current *listing
	// changed is closed when current is replaced.
	changed chan struct{}
}

// listing is an immutable snapshot of a Pool.
type listing struct {
	// devices are the present ones, in the order of their indexes, then the absent ones.
	devices []Device
	// indexes are those of devices, by ID.
	indexes map[string]int
	// topology is that of the present devices.
	topology *allocation.Topology
}

// NewPool returns an empty Pool.
func NewPool() *Pool {
	return &Pool{current: &listing{topology: &allocation.Topology{}}, changed: make(chan struct{})}
}

// Set sets the present devices, in the order of their indexes, and the number of NVLink
// connections between any two, nil without NVLink. If these are inconsistent, it returns
// an error and changes nothing.
func (p *Pool) Set(devices []Device, links [][]int) error {
	nodeDevices := make([]allocation.Device, len(devices))
	for i, device := range devices {
		if device.ID == "" {
			return fmt.Errorf("device %d has no ID", i)
		}
		nodeDevices[i] = allocation.Device{ID: device.ID, Group: device.NVLinkGroup, NUMANode: device.NUMANode}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set && slices.Equal(devices, p.present) && slices.EqualFunc(links, p.links, slices.Equal[[]int]) {
		return nil
	}
	topology, err := allocation.New(nodeDevices, links)
	if err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	gone := append(slices.Clone(p.present), p.absent...)
	p.present, p.links, p.set = slices.Clone(devices), links, true
	p.absent = nil
	p.addAbsent(gone)
	p.publish(topology)
	return nil
}

// Hold keeps devices in the list even if they are absent, since running containers
// still have them.
func (p *Pool) Hold(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make([]Device, len(ids))
	for i, id := range ids {
		held[i] = Device{ID: id, NVLinkGroup: allocation.Unknown, NUMANode: allocation.Unknown}
	}
	if p.addAbsent(held) {
		p.publish(p.current.topology)
	}
}

// Release removes the absent devices that no container has, unlike those with these IDs. It is
// for MIG slices: while a GPU may come back, a slice that has been destroyed will not.
func (p *Pool) Release(held ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := slices.DeleteFunc(slices.Clone(p.absent), func(device Device) bool { return !slices.Contains(held, device.ID) })
	if len(kept) < len(p.absent) {
		p.absent = kept
		p.publish(p.current.topology)
	}
}

// addAbsent adds the devices that are neither present nor absent yet to the absent ones.
func (p *Pool) addAbsent(devices []Device) (added bool) {
	for _, device := range devices {
		same := func(other Device) bool { return other.ID == device.ID }
		if slices.ContainsFunc(p.present, same) || slices.ContainsFunc(p.absent, same) {
			continue
		}
		device.Healthy = false
		p.absent = append(p.absent, device)
		added = true
	}
	slices.SortFunc(p.absent, func(a, b Device) int { return cmp.Compare(a.ID, b.ID) })
	return added
}

func (p *Pool) publish(topology *allocation.Topology) {
	list := &listing{
		devices:  slices.Concat(p.present, p.absent),
		indexes:  map[string]int{},
		topology: topology,
	}
	for i, device := range list.devices {
		list.indexes[device.ID] = i
	}
	p.current = list
	close(p.changed)
	p.changed = make(chan struct{})
}

// list returns a snapshot and a channel that is closed when the devices change.
func (p *Pool) list() (*listing, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current, p.changed
}

// ready reports whether devices have been set and there are any: a kubelet that receives
// an empty list forgets its allocations.
func (p *Pool) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set && len(p.current.devices) > 0
}

// Devices returns the devices as the kubelet sees them: the present ones, in the order of
// their indexes, then the absent ones.
func (p *Pool) Devices() []Device {
	list, _ := p.list()
	return slices.Clone(list.devices)
}

// device returns the device with an ID, or the one that the ID is a share of.
func (l *listing) device(id string) (device Device, known bool) {
	i, known := l.indexes[share.GPU(id)]
	if known {
		device = l.devices[i]
	}
	return device, known
}

// sorted returns IDs in the order of their devices' indexes, shares of a GPU in the order
// of their numbers.
func (l *listing) sorted(ids []string) []string {
	return slices.SortedFunc(slices.Values(ids), func(a, b string) int {
		return cmp.Or(l.indexes[share.GPU(a)]-l.indexes[share.GPU(b)], len(a)-len(b), cmp.Compare(a, b))
	})
}
