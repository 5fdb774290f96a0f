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
	// ID is what the kubelet calls the device, at most 63 characters; of a GPU
	// that can be shared at most 57, since those of its shares are longer.
	ID      string
	Healthy bool
	// MemoryMiB is all of a GPU's memory; 0 if unknown.
	MemoryMiB int64
	// NVLinkGroup is the same number for GPUs that reach each other over NVLink,
	// or allocation.Unknown.
	NVLinkGroup int
	// NUMANode is the NUMA node that the device hangs on, or allocation.Unknown.
	NUMANode int
}

// Counted returns the devices of a resource that only counts: name-0, name-1, …
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

// Pool is the devices of a resource. A device that was once in it stays: one
// that has vanished is unhealthy until it comes back.
type Pool struct {
	mu      sync.Mutex
	present []Device
	links   [][]int
	// absent are devices that are gone, in the order of their IDs.
	absent  []Device
	set     bool
	current *listing
	// changed is closed when current is replaced.
	changed chan struct{}
}

// listing is a Pool at one moment. It is never changed.
type listing struct {
	// devices are those that are there, in the order of their indexes, then
	// those that are gone.
	devices []Device
	places  map[string]int
	// topology is that of the devices which are there.
	topology *allocation.Topology
}

// NewPool returns an empty Pool.
func NewPool() *Pool {
	nothing := &allocation.Topology{}
	return &Pool{current: &listing{topology: nothing}, changed: make(chan struct{})}
}

// Set says which devices there are, in the order of their indexes, and how many
// NVLink connections there are between any two, nil without NVLink. If it fails,
// because they contradict themselves, nothing changes.
func (p *Pool) Set(devices []Device, links [][]int) error {
	places := make([]allocation.Device, len(devices))
	for place, device := range devices {
		if device.ID == "" {
			return fmt.Errorf("device %d has no ID", place)
		}
		places[place] = allocation.Device{ID: device.ID, Group: device.NVLinkGroup, NUMANode: device.NUMANode}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set && slices.Equal(devices, p.present) && slices.EqualFunc(links, p.links, slices.Equal[[]int]) {
		return nil
	}
	topology, err := allocation.New(places, links)
	if err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	gone := append(slices.Clone(p.present), p.absent...)
	p.present, p.links, p.set = slices.Clone(devices), links, true
	p.absent = nil
	p.remember(gone)
	p.publish(topology)
	return nil
}

// Hold keeps devices in the list that are not there: running containers have
// them still.
func (p *Pool) Hold(ids ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make([]Device, len(ids))
	for place, id := range ids {
		held[place] = Device{ID: id, NVLinkGroup: allocation.Unknown, NUMANode: allocation.Unknown}
	}
	if p.remember(held) {
		p.publish(p.current.topology)
	}
}

// remember adds to the absent devices those that are in no list yet.
func (p *Pool) remember(devices []Device) (added bool) {
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
		places:   map[string]int{},
		topology: topology,
	}
	for place, device := range list.devices {
		list.places[device.ID] = place
	}
	p.current = list
	close(p.changed)
	p.changed = make(chan struct{})
}

// list returns the devices and a channel that is closed when they change.
func (p *Pool) list() (*listing, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current, p.changed
}

// ready is true once the devices are known and there are some: a kubelet that is
// told of none forgets what it knew.
func (p *Pool) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.set && len(p.current.devices) > 0
}

// Devices returns what the kubelet is told: the devices that are there, in the
// order of their indexes, then those that are gone.
func (p *Pool) Devices() []Device {
	list, _ := p.list()
	return slices.Clone(list.devices)
}

// device returns what there is by an ID, which may be that of a share of it.
func (l *listing) device(id string) (device Device, known bool) {
	place, known := l.places[share.GPU(id)]
	if known {
		device = l.devices[place]
	}
	return device, known
}

// sorted returns IDs in the order of their indexes, shares of a GPU in that of
// their numbers.
func (l *listing) sorted(ids []string) []string {
	return slices.SortedFunc(slices.Values(ids), func(a, b string) int {
		return cmp.Or(l.places[share.GPU(a)]-l.places[share.GPU(b)], len(a)-len(b), cmp.Compare(a, b))
	})
}
