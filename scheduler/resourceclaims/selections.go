// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// selections are what the requests of Pods without a node select. Looking at all devices takes long, and any change of
// a ResourceSlice may change what is selected. So a selection remembers one device of each kind that it was found to
// select, and only the slices that have changed are looked at, except when that device has gone.
type selections struct {
	// byKey has those that a Pod uses, and users the keys of each Pod.
	byKey map[string]*selection
	users map[types.NamespacedName][]string
	// joined are the Pods that use a selection since Resolve was last called.
	joined map[types.NamespacedName]struct{}
	// slices are those that have changed since they were last looked at, by name; nil for one that is gone.
	slices map[string]*resourcev1.ResourceSlice
	// due has room for one value, and has it if Resolve has something to do.
	due chan struct{}
}

// selection is what a request selects.
type selection struct {
	class     string
	selectors []resourcev1.DeviceSelector
	users     map[types.NamespacedName]struct{}
	// known is true once all devices were looked at, and found the result. outdated is true if that has to be done
	// again: the class has changed.
	known, outdated bool
	found           selected
	// witnesses are the slices in which selected devices were found: whole GPUs, and parts. They belong to Resolve.
	witnesses [kinds]string
}

// selected is whether any published GPU is what a request selects, and any part of one.
type selected [kinds]bool

// The kinds of devices.
const (
	wholeGPU = iota
	partOfGPU
	kinds
)

// candidates are the ResourceSlices with GPUs, and those with parts of GPUs, by name.
type candidates [kinds]map[string]candidate

// candidate is a ResourceSlice with its devices of a kind.
type candidate struct {
	slice   *resourcev1.ResourceSlice
	devices []*resourcev1.Device
}

func newCandidates() (c candidates) {
	for kind := range c {
		c[kind] = map[string]candidate{}
	}
	return c
}

// update replaces slices, by name; nil is for one that is gone.
func (c *candidates) update(updated map[string]*resourcev1.ResourceSlice) {
	for name, slice := range updated {
		var devices [kinds][]*resourcev1.Device
		if slice != nil {
			devices = devicesOf(slice)
		}
		for kind := range c {
			if delete(c[kind], name); len(devices[kind]) > 0 {
				c[kind][name] = candidate{slice, devices[kind]}
			}
		}
	}
}

// devicesOf returns the devices of a slice that are GPUs, or parts of one.
func devicesOf(slice *resourcev1.ResourceSlice) (devices [kinds][]*resourcev1.Device) {
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		one := gpuOf(slice, device)
		switch {
		case !one.isGPU():
		case one.part:
			devices[partOfGPU] = append(devices[partOfGPU], device)
		default:
			devices[wholeGPU] = append(devices[wholeGPU], device)
		}
	}
	return devices
}

func newSelections() selections {
	return selections{
		byKey: map[string]*selection{}, users: map[types.NamespacedName][]string{}, joined: map[types.NamespacedName]struct{}{},
		slices: map[string]*resourcev1.ResourceSlice{}, due: make(chan struct{}, 1),
	}
}

// wakeUp has Resolve called.
func (s *selections) wakeUp() {
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// use records the selections that a Pod uses, instead of those that it has used so far.
func (s *selections) use(pod types.NamespacedName, requests map[string]*resourcev1.ExactDeviceRequest) {
	for key, request := range requests {
		one := s.byKey[key]
		if one == nil {
			one = &selection{class: request.DeviceClassName, selectors: request.Selectors, users: map[types.NamespacedName]struct{}{}}
			s.byKey[key] = one
		}
		if _, uses := one.users[pod]; !uses {
			one.users[pod], s.joined[pod] = struct{}{}, struct{}{}
			s.wakeUp()
		}
	}
	for _, key := range s.users[pod] {
		if _, still := requests[key]; still {
			continue
		}
		one := s.byKey[key]
		if delete(one.users, pod); len(one.users) == 0 {
			delete(s.byKey, key)
		}
	}
	if len(requests) == 0 {
		delete(s.users, pod)
		delete(s.joined, pod)
		return
	}
	s.users[pod] = slices.Collect(maps.Keys(requests))
}

// keyOf returns the key of what a request selects.
func keyOf(request *resourcev1.ExactDeviceRequest) string {
	key, err := json.Marshal(&resourcev1.ExactDeviceRequest{DeviceClassName: request.DeviceClassName, Selectors: request.Selectors})
	if err != nil {
		return "" // can't happen: these types can be encoded
	}
	return string(key)
}

// Due returns a channel on which a value comes when Resolve has something to do.
func (c *Counter) Due() <-chan struct{} { return c.selections.due }

// SliceChanged records that a ResourceSlice has changed; before or after is nil if it is new or gone.
func (c *Counter) SliceChanged(before, after *resourcev1.ResourceSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before != nil {
		c.selections.slices[before.Name] = nil
	}
	if after != nil {
		c.selections.slices[after.Name] = after
	}
	c.selections.wakeUp()
}

// ClassChanged records that a DeviceClass has changed, or is new or gone.
func (c *Counter) ClassChanged(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.selections.byKey {
		if one.class == name {
			one.outdated = true
			c.selections.wakeUp()
		}
	}
}

// Follow has what the claims of a Pod without a node select found out, and kept up to date, until Forget is called.
func (c *Counter) Follow(pod *corev1.Pod) {
	requests := map[string]*resourcev1.ExactDeviceRequest{}
	for i := range pod.Spec.ResourceClaims {
		claim := c.claim(pod, &pod.Spec.ResourceClaims[i])
		if claim == nil {
			continue
		}
		for j := range claim.Spec.Devices.Requests {
			if request := claim.Spec.Devices.Requests[j].Exactly; request != nil {
				requests[keyOf(request)] = request
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.selections.use(nameOf(pod), requests)
}

// Forget ends what Follow has begun for a Pod of this name.
func (c *Counter) Forget(pod types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.selections.use(pod, nil)
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// selected returns what a request selects, and whether that is known.
func (c *Counter) selected(request *resourcev1.ExactDeviceRequest) (found selected, known bool) {
	key := keyOf(request)
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.selections.byKey[key]
	if one == nil {
		return selected{}, false
	}
	return one.found, one.known
}

// Resolve finds out what is selected by requests that are new, or may select something else because of what has changed
// since the last call. It returns the Pods that may now ask for another number of GPUs, and those that were not
// followed before: they may have been kept waiting until then. It takes long when the cluster is large, and keeps
// nobody waiting who uses the Counter.
func (c *Counter) Resolve(ctx context.Context) (changed []types.NamespacedName) {
	c.resolving.Lock()
	defer c.resolving.Unlock()
	all, outdated, updated, joined := c.takeDue()
	changed = slices.Collect(maps.Keys(joined))
	c.candidates.update(updated)
	for _, one := range all {
		found := c.look(ctx, one, outdated[one], updated)
		c.mu.Lock()
		if one.found != found {
			changed = slices.AppendSeq(changed, maps.Keys(one.users))
		}
		one.known, one.found = true, found
		c.mu.Unlock()
	}
	slices.SortFunc(changed, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(changed)
}

// takeDue returns all selections, those of them for which all devices have to be looked at, the slices that have
// changed, and the Pods that are new.
func (c *Counter) takeDue() (
	all []*selection, outdated map[*selection]bool, updated map[string]*resourcev1.ResourceSlice, joined map[types.NamespacedName]struct{},
) {
	c.mu.Lock()
	defer c.mu.Unlock()
	outdated, updated, joined = map[*selection]bool{}, c.selections.slices, c.selections.joined
	c.selections.slices, c.selections.joined = map[string]*resourcev1.ResourceSlice{}, map[types.NamespacedName]struct{}{}
	for _, one := range c.selections.byKey {
		all = append(all, one)
		if one.outdated || !one.known {
			outdated[one], one.outdated = true, false
		}
	}
	return all, outdated, updated, joined
}

// look finds out what is selected.
func (c *Counter) look(ctx context.Context, one *selection, outdated bool, updated map[string]*resourcev1.ResourceSlice) (found selected) {
	class, err := c.objects.Class(one.class)
	if err != nil {
		one.witnesses = [kinds]string{}
		return selected{}
	}
	selectors := slices.Concat(class.Spec.Selectors, one.selectors)
	for kind := range kinds {
		witness := &one.witnesses[kind]
		_, touched := updated[*witness]
		switch {
		case outdated:
			*witness = c.search(ctx, kind, selectors, maps.Keys(c.candidates[kind]))
		case *witness == "":
			*witness = c.search(ctx, kind, selectors, maps.Keys(updated))
		case touched && !c.selects(ctx, kind, selectors, *witness):
			*witness = c.search(ctx, kind, selectors, maps.Keys(c.candidates[kind]))
		}
		found[kind] = *witness != ""
	}
	return found
}

// search returns one of the slices that has a selected device; empty if none has.
func (c *Counter) search(ctx context.Context, kind int, selectors []resourcev1.DeviceSelector, names iter.Seq[string]) (witness string) {
	for name := range names {
		if c.selects(ctx, kind, selectors, name) {
			return name
		}
	}
	return ""
}

// selects reports whether a slice has a selected device.
func (c *Counter) selects(ctx context.Context, kind int, selectors []resourcev1.DeviceSelector, name string) bool {
	one := c.candidates[kind][name]
	return slices.ContainsFunc(one.devices, func(device *resourcev1.Device) bool { return c.matches(ctx, one.slice, device, selectors) })
}
