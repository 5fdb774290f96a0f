// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// linkStateCall is the function that reports whether a link is active.
const linkStateCall = "nvmlDeviceGetNvLinkState"

// linkInterval is how often the active links are counted: it takes a call for each link.
const linkInterval = time.Minute

func linkReader() reader {
	r := valueReader(linkStateCall, gpu.NVLinks, 1, func(d nvml.Device) (int, nvml.Return) {
		active, ret := activeLinks(d)
		return len(active), ret
	})
	r.every = linkInterval
	return r
}

// activeLinks returns the numbers of a GPU's active links. It fails if the first link can't be
// read, as without NVLink; others that can't be read do not exist or count as inactive.
func activeLinks(d nvml.Device) ([]int, nvml.Return) {
	var active []int
	first := nvml.SUCCESS
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := d.GetNvLinkState(link)
		switch {
		case fatal(ret):
			return active, ret
		case ret == nvml.SUCCESS && state == nvml.FEATURE_ENABLED:
			active = append(active, link)
		case link == 0:
			first = ret
		}
	}
	return active, first
}

// links are the active NVLink connections of one GPU.
type links struct {
	// direct counts those to each other device.
	direct map[pciAddress]int
	// switched counts those to NVSwitches, which connect all GPUs on switches.
	switched int
	// active counts all, also those that lead elsewhere.
	active int
}

// nvLinks returns the matrix of gpu.Inventory.
func (s *session) nvLinks() [][]int {
	if !s.symbols.has(linkStateCall, "nvmlDeviceGetNvLinkRemotePciInfo") {
		return nil
	}
	gpus := map[pciAddress]bool{}
	for _, device := range s.devices {
		gpus[device.address] = true
	}
	all := make([]links, len(s.devices))
	for place, device := range s.devices {
		if device.problem == nil {
			all[place] = s.linksOf(device, gpus)
			device.opened.links, device.opened.counted = all[place].active, true
		}
	}
	return s.matrix(all)
}

// matrix counts the links of each pair. If one of two reports more direct links than the
// other, as when the other is lost, the higher number counts: the wiring does not change.
func (s *session) matrix(all []links) [][]int {
	counts := make([][]int, len(all))
	for i := range counts {
		counts[i] = make([]int, len(all))
	}
	found := false
	for i := range all {
		for j := range i {
			direct := max(all[i].direct[s.devices[j].address], all[j].direct[s.devices[i].address])
			counts[i][j] = direct + min(all[i].switched, all[j].switched)
			counts[j][i] = counts[i][j]
			found = found || counts[i][j] > 0
		}
	}
	if !found {
		return nil
	}
	return counts
}

// linksOf reads a GPU's links. Links that do not exist or can't be read count as inactive.
func (s *session) linksOf(d *device, gpus map[pciAddress]bool) links {
	found := links{direct: map[pciAddress]int{}}
	active, _ := activeLinks(d.handle)
	found.active = len(active)
	for _, link := range active {
		remote, ret := d.handle.GetNvLinkRemotePciInfo(link)
		switch {
		case ret == nvml.SUCCESS && gpus[addressOf(remote)] && addressOf(remote) != d.address:
			found.direct[addressOf(remote)]++
		case s.leadsToSwitch(d, link):
			found.switched++
		}
	}
	return found
}

// leadsToSwitch reports whether a link that does not end at one of our GPUs ends at a switch,
// rather than at a CPU or at a GPU that is not visible. If NVML does not know, it is a
// switch, since those are hidden from virtual machines; NCCL does the same.
func (s *session) leadsToSwitch(d *device, link int) bool {
	if !s.symbols.has("nvmlDeviceGetNvLinkRemoteDeviceType") {
		return true
	}
	kind, ret := d.handle.GetNvLinkRemoteDeviceType(link)
	return ret != nvml.SUCCESS || kind == nvml.NVLINK_DEVICE_TYPE_SWITCH || kind == nvml.NVLINK_DEVICE_TYPE_UNKNOWN
}
