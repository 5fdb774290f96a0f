// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import "fmt"

// Request is a request for devices.
type Request struct {
	// Available are the devices to choose from. Unknown ones are ignored.
	Available []string
	// Must are those of the available devices that must be chosen.
	Must []string
	// Avoid are devices that are assigned to others: they are chosen only if the rest
	// does not suffice.
	Avoid []string
	// Size is the number of devices to choose.
	Size int
}

// Choose returns the best choice, in the order of the devices' indexes. It fails
// if there is none.
func (t *Topology) Choose(request Request) ([]string, error) {
	states, err := t.states(request)
	if err != nil {
		return nil, err
	}
	if request.Size == 0 {
		return []string{}, nil
	}
	ids := make([]string, 0, request.Size)
	for _, place := range newSearch(t, states, request.Size).run() {
		ids = append(ids, t.devices[place].ID)
	}
	return ids, nil
}

// state is whether a device can be chosen.
type state uint8

const (
	unavailable state = iota
	free
	avoided
	required
)

// states returns the state of each device. None is avoided if the others suffice, and all of the
// others are required if not.
func (t *Topology) states(request Request) ([]state, error) {
	states := make([]state, len(t.devices))
	available, must := 0, 0
	for _, id := range request.Available {
		if place, known := t.index[id]; known && states[place] == unavailable {
			states[place] = free
			available++
		}
	}
	for _, id := range request.Avoid {
		if place, known := t.index[id]; known && states[place] == free {
			states[place] = avoided
		}
	}
	for _, id := range request.Must {
		place, known := t.index[id]
		if !known || states[place] == unavailable {
			return nil, fmt.Errorf("device %q must be chosen but is not available", id)
		}
		if states[place] != required {
			states[place] = required
			must++
		}
	}
	if request.Size < must || request.Size > available {
		return nil, fmt.Errorf("%d devices can't be chosen: %d are available, %d must be among them", request.Size, available, must)
	}
	settleAvoided(states, request.Size)
	return states, nil
}

func settleAvoided(states []state, size int) {
	others := 0
	for _, state := range states {
		if state == free || state == required {
			others++
		}
	}
	for place, state := range states {
		switch {
		case state == avoided && others >= size:
			states[place] = unavailable
		case state == free && others < size:
			states[place] = required
		}
	}
}
