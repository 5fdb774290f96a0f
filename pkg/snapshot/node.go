// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpumodel"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
)

const bytesPerMiB = 1 << 20

// NodeView determines how Nodes are converted.
type NodeView struct {
	Levels Levels
	// Exact is true if nodes have of each tracked resource what they list. Else they have plenty of an extended
	// resource that none of them lists: it is not counted. See Counted.
	Exact bool
	// Published are the GPUs that DRA drivers publish, by node, in the order of their UUIDs;
	// nil if that is not known. The owner changes it: others use a Clone.
	Published map[string][]PublishedGPU
	// Edition is for the owner: the number of changes of the view after which nodes had to be converted again.
	Edition uint64

	// labels are those by which nodes are told apart, and resources those that are counted besides CPU, memory and
	// GPUs: see Track. sweeps counts the calls of Sweep, and users are the selectors and preferences that were tracked
	// since the last one; the value is false for those that were tracked without the names of nodes.
	labels    map[string]*trackedLabel
	resources map[string]*trackedResource
	sweeps    uint64
	users     map[any]bool
}

// Redescribe updates what depends on which labels and resources are tracked.
func (v *NodeView) Redescribe(described *placement.Node, node *corev1.Node) {
	described.Traits, described.Others = v.traits(node), v.others(node)
}

// Node converts a Node for the engine, and returns its cards. An inventory that can't be
// parsed is an error; the node is then described without GPUs.
func (v *NodeView) Node(node *corev1.Node) (placement.Node, Cards, error) {
	described := placement.Node{
		Name:     node.Name,
		CPU:      milliCores(node.Status.Allocatable),
		Memory:   node.Status.Allocatable.Memory().Value() / bytesPerMiB,
		Slots:    int(node.Status.Allocatable.Pods().Value()),
		Hostname: node.Labels[corev1.LabelHostname],
		Model:    cmp.Or(Model(node), publishedModel(v.Published[node.Name])),
		Pool:     node.Labels[v1.LabelNodePool],
		Domains:  v.Levels.path(node.Labels),
		Traits:   v.traits(node),
		Closed:   slices.ContainsFunc(Taints(node), closes),
		Others:   v.others(node),
	}
	gpus, cards, err := v.gpusOf(node)
	if err != nil {
		return described, Cards{}, fmt.Errorf("node %s: %w", node.Name, err)
	}
	described.GPUs = gpus
	return described, cards, nil
}

// gpusOf returns a node's GPUs as the agent lists them. Without an agent they are those that
// the kubelet offers, of which only the number is known, or those that a DRA driver publishes.
func (v *NodeView) gpusOf(node *corev1.Node) ([]placement.GPU, Cards, error) {
	text := node.Annotations[inventory.Annotation]
	published := v.Published[node.Name]
	switch {
	case text != "":
		return v.listedGPUs(node, text)
	case len(published) == 0 || offersGPUs(node):
		return unlistedGPUs(node), Cards{}, nil
	}
	gpus, cards := publishedGPUs(published, inventory.ParseCordon(node.Annotations[inventory.CordonAnnotation]))
	return gpus, cards, nil
}

// listedGPUs returns the GPUs of a node's inventory that can be allocated as a whole or as shares,
// and where those are that are divided into MIG slices.
func (v *NodeView) listedGPUs(node *corev1.Node, text string) ([]placement.GPU, Cards, error) {
	listed, err := inventory.Parse(text)
	if err != nil {
		return nil, Cards{}, err
	}
	mayAllocate, paused := v.mayAllocate(node), true
	cordon := inventory.ParseCordon(node.Annotations[inventory.CordonAnnotation])
	gpus := make([]placement.GPU, 0, len(listed.GPUs))
	uuids, numbers := make([]string, 0, len(listed.GPUs)), make([]int, 0, len(listed.GPUs))
	var divided []Divided
	var cordoned []int
	for i := range listed.GPUs {
		gpu := &listed.GPUs[i]
		if gpu.MIG { // nobody can have it as a whole
			divided = append(divided, Divided{Number: i, GPU: gpu})
			continue
		}
		if len(gpus) == placement.MaxCards {
			continue
		}
		available := mayAllocate(gpu)
		paused = paused && !available
		gpus = append(gpus, placement.GPU{
			Memory: gpu.MemoryMiB, Group: ptr.Deref(gpu.NVLinkGroup, -1), NUMA: ptr.Deref(gpu.NUMANode, -1),
			Broken: gpu.Health != inventory.Healthy || !available || cordon.Has(gpu),
		})
		if gpu.Health == inventory.Healthy && cordon.Has(gpu) {
			cordoned = append(cordoned, len(uuids))
		}
		uuids, numbers = append(uuids, gpu.UUID), append(numbers, i)
	}
	cards := newCards(uuids)
	cards.cordoned = cordoned
	cards.paused = paused && len(uuids) > 0 || len(uuids) == 0 && hasSlices(divided) && !offersSlices(node)
	if len(divided) > 0 {
		cards.numbers, cards.divided = numbers, divided
	}
	return gpus, cards, nil
}

// Unusable returns which of a node's GPUs the engine can't use, and the reason in one word; nothing if it uses them
// all.
func Unusable(node *corev1.Node) (reason, problem string) {
	count := offeredCards(node)
	if text := node.Annotations[inventory.Annotation]; text != "" {
		listed, err := inventory.Parse(text)
		if err != nil {
			return "InventoryUnreadable", fmt.Sprintf("gpu-scheduler uses none of the node's GPUs: %v", err)
		}
		count = int64(len(listed.GPUs))
	}
	if count <= placement.MaxCards {
		return "", ""
	}
	return "TooManyGPUs", fmt.Sprintf("The node has %d GPUs, of which gpu-scheduler uses %d: more of one node are not supported", count, placement.MaxCards)
}

// InstalledGPUs returns how many GPUs a node has, whether they can be used now or not, and in whatever form.
func InstalledGPUs(node *corev1.Node) int64 {
	if listed, err := inventory.Parse(node.Annotations[inventory.Annotation]); err == nil {
		return int64(len(listed.GPUs))
	}
	return max(quantity(node.Status.Capacity, v1.ResourceGPU), quantity(node.Status.Capacity, v1.ResourceNVIDIAGPU))
}

// hasSlices reports whether there are MIG slices that the kubelet should offer.
func hasSlices(divided []Divided) bool {
	return slices.ContainsFunc(divided, func(gpu Divided) bool { return len(gpu.Slices) > 0 && gpu.Health == inventory.Healthy })
}

// offersSlices reports whether the kubelet offers MIG slices, as offersGPUs does for GPUs.
func offersSlices(node *corev1.Node) bool {
	for name, amount := range node.Status.Allocatable {
		if _, ok := v1.SliceProfile(name); ok && !amount.IsZero() {
			return true
		}
	}
	return false
}

// offersGPUs reports whether the kubelet has registered GPUs: an agent that has listed them
// may not have registered them yet, or no longer.
func offersGPUs(node *corev1.Node) bool {
	return offeredCards(node) > 0 || quantity(node.Status.Allocatable, v1.ResourceGPUPercent) > 0
}

// offeredCards returns how many whole GPUs the kubelet offers. Those under different names
// are the same cards.
func offeredCards(node *corev1.Node) int64 {
	return max(quantity(node.Status.Allocatable, v1.ResourceGPU), quantity(node.Status.Allocatable, v1.ResourceNVIDIAGPU))
}

// Model returns the model of a node's GPUs; empty if it is unknown. Where the GPUs are only
// NVIDIA's device plugin's, GPU feature discovery says it.
func Model(node *corev1.Node) string {
	if model := node.Labels[v1.LabelGPUModel]; model != "" || !onlyNVIDIA(node) {
		return model
	}
	// The suffix means that several Pods share each GPU, not another model.
	return gpumodel.Normalize(strings.TrimSuffix(node.Labels[v1.LabelNVIDIAProduct], "-SHARED"))
}

// memory returns the memory of each of a node's GPUs as labels say it; 0 if it is unknown:
// such GPUs are only for Pods that ask for no minimum.
func memory(node *corev1.Node) int64 {
	text := node.Labels[v1.LabelGPUMemory]
	if text == "" && onlyNVIDIA(node) {
		text = node.Labels[v1.LabelNVIDIAMemory]
	}
	memory, err := strconv.ParseInt(text, 10, 64)
	if err != nil || memory < 0 {
		return 0
	}
	return memory
}

// onlyNVIDIA reports whether a node offers GPUs as nvidia.com/gpu and not as ours.
func onlyNVIDIA(node *corev1.Node) bool { return len(foreignOffers(node)) == 1 }

// unlistedGPUs returns the GPUs of a node of which only the number is known.
func unlistedGPUs(node *corev1.Node) []placement.GPU {
	gpus, memory := make([]placement.GPU, min(offeredCards(node), placement.MaxCards)), memory(node)
	for i := range gpus {
		gpus[i] = placement.GPU{Memory: memory, Group: -1, NUMA: -1}
	}
	return gpus
}

func quantity(list corev1.ResourceList, name corev1.ResourceName) int64 {
	amount := list[name]
	return amount.Value()
}
