// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// Recorder is told about all that changes the engine's decisions, while the mirror is locked. What it is given must not
// be modified, and may be kept.
type Recorder interface {
	// NodeSet is called after a node was added, with before nil, or updated. The engine numbers the kinds of nodes as
	// it sees them.
	NodeSet(before, after *placement.Node, kind int)
	NodeRemoved(node *placement.Node)
	// PodPlaced is called after something got a place: a Pod, which is the holder, or something else. A seat is the
	// place of a Pod that has yet to be bound.
	PodPlaced(pod *placement.Pod, holder *corev1.Pod, seat bool)
	PodRemoved(pod *placement.Pod)
	// Learned is called before a request is counted as demand. Equal ones have the same shape.
	Learned(shape *placement.Shape, ending bool)
	// Due reports whether Checkpoint is to be called, between two changes, and whether all has to be in it that is
	// there, as the Recorder has not followed it.
	Due() (due, all bool)
	Checkpoint(contents *Contents)
}

// Contents is all that the engine decides with.
type Contents struct {
	// All is true if the nodes and the Pods are in it.
	All   bool
	Nodes []Described
	Pods  []Held
	// Memory is what the policy has learned.
	Memory *packing.Memory
}

// Described is a node of a kind.
type Described struct {
	*placement.Node
	Kind int
}

// Held is something that holds a place: a Pod, which is the Holder, or something else.
type Held struct {
	*placement.Pod
	Holder *corev1.Pod
	Seat   bool
}

// Record sets who is told about changes, which begin with all that is there; nil for nobody.
func (m *Mirror) Record(recorder Recorder) {
	m.lock()
	defer m.unlock()
	if m.recorder = recorder; recorder == nil {
		m.cluster.Observe(nil)
		return
	}
	follows := &follower{Recorder: recorder, mirror: m}
	m.cluster.Each(func(node *placement.Node, kind int) { follows.NodeSet(nil, node, kind) }, follows.PodPlaced)
	m.cluster.Observe(follows)
}

// follower tells a Recorder about the engine's cluster, with the Pods that the mirror knows.
type follower struct {
	Recorder
	mirror *Mirror
}

var _ placement.Observer = (*follower)(nil)

// PodPlaced implements placement.Observer.
func (f *follower) PodPlaced(pod *placement.Pod) {
	holder, seat := f.mirror.holderOf(pod.Name)
	f.Recorder.PodPlaced(pod, holder, seat)
}

// holderOf returns the Pod with a name in the engine; nil if it is not one of a Pod.
func (m *Mirror) holderOf(name string) (holder *corev1.Pod, seat bool) {
	if e := m.pods[types.UID(name)]; e != nil {
		return e.pod, e.held && !e.seen
	}
	return nil, false
}

// checkpointIfDue gives the Recorder a checkpoint if it needs one.
func (m *Mirror) checkpointIfDue() {
	if m.recorder == nil {
		return
	}
	due, all := m.recorder.Due()
	if !due {
		return
	}
	contents := &Contents{All: all, Memory: m.policy.Memory()}
	if all {
		m.fill(contents)
	}
	m.recorder.Checkpoint(contents)
}

// fill adds all that is there.
func (m *Mirror) fill(contents *Contents) {
	contents.Nodes, contents.Pods = make([]Described, 0, len(m.nodes)), make([]Held, 0, len(m.pods))
	m.cluster.Each(
		func(node *placement.Node, kind int) { contents.Nodes = append(contents.Nodes, Described{node, kind}) },
		func(pod *placement.Pod) {
			holder, seat := m.holderOf(pod.Name)
			contents.Pods = append(contents.Pods, Held{Pod: pod, Holder: holder, Seat: seat})
		},
	)
}
