// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"errors"
	"fmt"
)

// Unknown is the NVLink group or the NUMA node of a device without one.
const Unknown = -1

// Device is one device of a node.
type Device struct {
	ID string
	// Group is the same number for devices that reach each other over NVLink, or
	// Unknown.
	Group int
	// NUMANode is the NUMA node that the device is attached to, or Unknown.
	NUMANode int
}

// Topology is how the devices of a node are connected. It is immutable, so that any number
// of callers may share it.
type Topology struct {
	devices []Device
	index   map[string]int
	// links is the number of connections between two devices; nil if there are
	// none.
	links [][]int
	// groupSizes counts the members of each group.
	groupSizes map[int]int
	// twins gives devices that differ only in their index the same number.
	twins []int
	// numa numbers the NUMA nodes from 0; Unknown is one of them.
	numa []int
}

// New returns the topology of devices, in the order of their indexes, and the
// symmetric matrix of their connections, nil if there are none.
func New(devices []Device, links [][]int) (*Topology, error) {
	t := &Topology{
		devices:    devices,
		index:      make(map[string]int, len(devices)),
		groupSizes: map[int]int{},
	}
	for place, device := range devices {
		if _, twice := t.index[device.ID]; twice {
			return nil, fmt.Errorf("device %q is listed twice", device.ID)
		}
		t.index[device.ID] = place
		if device.Group != Unknown {
			t.groupSizes[device.Group]++
		}
	}
	if links != nil {
		if err := validateLinks(links, len(devices)); err != nil {
			return nil, err
		}
		t.links = links
	}
	t.numberNUMANodes()
	t.findTwins()
	return t, nil
}

func validateLinks(links [][]int, size int) error {
	if len(links) != size {
		return fmt.Errorf("the links have %d rows for %d devices", len(links), size)
	}
	for i, row := range links {
		if len(row) != size {
			return fmt.Errorf("row %d of the links has %d columns for %d devices", i, len(row), size)
		}
	}
	for i, row := range links {
		for j, count := range row {
			switch {
			case count < 0:
				return errors.New("a number of links is negative")
			case i == j && count != 0:
				return fmt.Errorf("device %d is linked to itself", i)
			case links[j][i] != count:
				return fmt.Errorf("the links between %d and %d are not symmetric", i, j)
			}
		}
	}
	return nil
}

// Len returns the number of devices.
func (t *Topology) Len() int { return len(t.devices) }

// numberNUMANodes numbers the NUMA nodes so that they fit into a mask; those beyond the
// 63rd, which no machine has, count as one.
func (t *Topology) numberNUMANodes() {
	const most = 63
	numbers := map[int]int{}
	t.numa = make([]int, len(t.devices))
	for place, device := range t.devices {
		number, known := numbers[device.NUMANode]
		if !known {
			number = min(len(numbers), most)
			numbers[device.NUMANode] = number
		}
		t.numa[place] = number
	}
}

// findTwins compares each device with one of each kind before it: being twins is an
// equivalence relation, since the links are symmetric.
func (t *Topology) findTwins() {
	t.twins = make([]int, len(t.devices))
	var kinds []int
	for place := range t.devices {
		t.twins[place] = len(kinds)
		for number, first := range kinds {
			if t.areTwins(first, place) {
				t.twins[place] = number
				break
			}
		}
		if t.twins[place] == len(kinds) {
			kinds = append(kinds, place)
		}
	}
}

func (t *Topology) areTwins(a, b int) bool {
	if t.devices[a].Group != t.devices[b].Group || t.numa[a] != t.numa[b] {
		return false
	}
	if t.links == nil {
		return true
	}
	for other := range t.devices {
		if other != a && other != b && t.links[a][other] != t.links[b][other] {
			return false
		}
	}
	return true
}
