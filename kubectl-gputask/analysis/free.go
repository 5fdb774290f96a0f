// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Free is how the GPUs of the nodes that a Pod may run on are used.
type Free struct {
	// Nodes is the number of these nodes, Closed how many of them take no Pods with GPUs now since they are cordoned or
	// not ready, or their kubelets offer no GPUs. The GPUs of closed nodes are not counted below.
	Nodes  int `json:"nodes"`
	Closed int `json:"closed,omitempty"`
	// Profile is that of the MIG slices that the Pod asks for, which are then counted instead of GPUs;
	// empty if it asks for GPUs.
	Profile string `json:"profile,omitempty"`
	// GPUs is the total; Whole counts the unused ones, Shared the partly free ones.
	GPUs      int `json:"gpus"`
	Whole     int `json:"whole"`
	Shared    int `json:"shared"`
	Reserved  int `json:"reserved,omitempty"`
	Unhealthy int `json:"unhealthy,omitempty"`
	// LargestBlock is the largest number of unused GPUs on one node, BlockOn that node.
	LargestBlock int    `json:"largestBlock"`
	BlockOn      string `json:"blockOn,omitempty"`
}

// free counts the GPUs that the first role of a gang may use.
func (v *View) free(gang *snapshot.Members[*corev1.Pod]) *Free {
	f := &Free{}
	if len(gang.Roles) == 0 {
		return f
	}
	request := v.Cluster.Request(gang.Roles[0].Shape)
	if resource := snapshot.SliceResource(&request.Shape); resource != "" {
		v.freeSlices(f, request, resource)
		return f
	}
	reserved := v.reservedFor()
	for _, node := range v.Nodes {
		cards := v.Cluster.CardStates(node.Name)
		if !v.isEligible(node.Name, request) || (len(cards) == 0 && request.Percent() > 0) {
			continue
		}
		f.Nodes++
		if v.closedTo(node, request) {
			f.Closed++
			continue
		}
		f.count(node.Name, cards, v.Cards[node.Name], reserved[node.Name])
	}
	return f
}

// freeSlices counts the MIG slices that a resource counts and that a request may use.
func (v *View) freeSlices(f *Free, request *placement.Request, resource string) {
	f.Profile, _ = v1.SliceProfile(corev1.ResourceName(resource))
	for _, node := range v.Nodes {
		offered := node.Status.Allocatable[corev1.ResourceName(resource)]
		total := int(offered.Value())
		if total == 0 || !v.isEligible(node.Name, request) {
			continue
		}
		f.Nodes++
		if v.closedTo(node, request) {
			f.Closed++
			continue
		}
		free := int(max(0, v.Cluster.FreeOn(node.Name, resource)))
		f.GPUs, f.Whole = f.GPUs+total, f.Whole+free
		if free > f.LargestBlock {
			f.LargestBlock, f.BlockOn = free, node.Name
		}
	}
}

// closedTo reports whether a node takes no Pods of a request for now, whatever it has.
func (v *View) closedTo(node *corev1.Node, request *placement.Request) bool {
	return placement.ClosedTo(v.Cluster, node.Name, request) || v.paused(node) != ""
}

// isEligible reports whether a Pod may run on a node, given enough room.
func (v *View) isEligible(name string, request *placement.Request) bool {
	reason, err := v.Cluster.Fit(name, request)
	if err != nil {
		return false
	}
	switch reason {
	case placement.OtherPool, placement.OtherLabels, placement.Tainted, placement.NotOffered, placement.OtherModel, placement.TooLittleGPUMemory, placement.InvalidRequest:
		return false
	default:
		return true
	}
}

func (f *Free) count(node string, cards []placement.CardState, names snapshot.Cards, reserved map[int]string) {
	whole := 0
	for i, card := range cards {
		f.GPUs++
		switch {
		case card.Broken && names.Cordoned(i): // nobody gets it, and nothing is wrong with it
		case card.Broken:
			f.Unhealthy++
		case reserved[i] != "":
			f.Reserved++
		case card.Free == placement.Card:
			whole++
		case card.Free > 0:
			f.Shared++
		}
	}
	f.Whole += whole
	if whole > f.LargestBlock {
		f.LargestBlock, f.BlockOn = whole, node
	}
}

// lastFree returns the last cards of a node that are free and not taken.
func (v *View) lastFree(node string, count int, taken map[int]string) []int {
	states := v.Cluster.CardStates(node)
	var found []int
	for i := len(states) - 1; i >= 0 && len(found) < count; i-- {
		if states[i].Free == placement.Card && !states[i].Broken && taken[i] == "" {
			found = append(found, i)
		}
	}
	return found
}
