// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"maps"
	"slices"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// State is a cluster at a moment.
type State struct {
	// After is the number of the last change.
	After uint64 `json:"after"`
	// Time is that of the decision that follows.
	Time time.Time `json:"time"`
	// Digest is computed from the cluster.
	Digest string `json:"digest"`
	// Nodes are sorted by name.
	Nodes []NodeState `json:"nodes"`
}

// NodeState is a node with what is placed there.
type NodeState struct {
	Name  string `json:"name"`
	Model string `json:"model,omitempty"`
	Pool  string `json:"pool,omitempty"`
	// Domains is where it is, from the widest level to the narrowest.
	Domains []string `json:"domains,omitempty"`
	Closed  bool     `json:"closed,omitempty"`
	Cards   []Card   `json:"cards,omitempty"`
	// FreeCPU and FreeMemory are in milli-cores and MiB.
	FreeCPU    int64 `json:"freeCPU"`
	FreeMemory int64 `json:"freeMemory"`
	// Pods are those that are placed there, sorted by name.
	Pods []PodState `json:"pods,omitempty"`
}

// Card is a GPU of a node.
type Card struct {
	// Free is how much of it is free, in percent.
	Free   int  `json:"free"`
	Broken bool `json:"broken,omitempty"`
	// Pods are who has the rest: the Labels.
	Pods []string `json:"pods,omitempty"`
}

// PodState is a Pod, or something else, that holds a place.
type PodState struct {
	// Label is the namespace and name of a Pod, or what else it is.
	Label string `json:"label"`
	// UID is its name in the engine.
	UID  string `json:"uid"`
	Gang string `json:"gang,omitempty"`
	// Seat is true for a Pod that was still to be bound when it was placed.
	Seat    bool  `json:"seat,omitempty"`
	GPUs    []int `json:"gpus,omitempty"`
	Percent int   `json:"percent,omitempty"`
}

// Label names it for people.
func (p *Pod) Label() string {
	if p.Pod != "" {
		return p.Pod
	}
	return p.Name
}

// Before returns the cluster right before a decision, by its number.
func (j *Journal) Before(number int) (*State, error) {
	d, err := j.Decision(number)
	if err != nil {
		return nil, err
	}
	s, err := j.of(d)
	if err != nil {
		return nil, err
	}
	nodes, pods := map[string]*Node{}, map[string]*Pod{}
	for _, node := range s.nodes {
		nodes[node.Name] = node
	}
	for _, pod := range s.pods {
		pods[pod.Name] = pod
	}
	for _, line := range s.changes {
		if line.N > d.After {
			break
		}
		switch {
		case line.Node != nil:
			nodes[line.Node.Name] = line.Node
		case line.Gone != "":
			delete(nodes, line.Gone)
		case line.Pod != nil:
			pods[line.Pod.Name] = line.Pod
		case line.Left != "":
			delete(pods, line.Left)
		}
	}
	return stateOf(d, nodes, pods), nil
}

func stateOf(d *Decision, nodes map[string]*Node, pods map[string]*Pod) *State {
	state, digest := &State{After: d.After, Time: d.Time}, Digest(0)
	index := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[name].Engine()
		digest.AddNode(&node)
		index[name] = len(state.Nodes)
		described := NodeState{Name: name, Model: node.Model, Pool: node.Pool, Domains: node.Domains, Closed: node.Closed, FreeCPU: node.CPU, FreeMemory: node.Memory}
		for i := range node.GPUs {
			described.Cards = append(described.Cards, Card{Free: placement.Card, Broken: node.GPUs[i].Broken})
		}
		state.Nodes = append(state.Nodes, described)
	}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		pod := pods[name]
		placed := pod.Engine()
		digest.AddPod(&placed)
		if at, known := index[pod.Node]; known {
			state.Nodes[at].hold(pod)
		}
	}
	for i := range state.Nodes {
		slices.SortStableFunc(state.Nodes[i].Pods, func(a, b PodState) int { return strings.Compare(a.Label, b.Label) })
	}
	state.Digest = digest.String()
	return state
}

// hold counts what a Pod holds.
func (n *NodeState) hold(pod *Pod) {
	n.FreeCPU -= pod.CPU
	n.FreeMemory -= pod.Memory
	n.Pods = append(n.Pods, PodState{Label: pod.Label(), UID: pod.Name, Gang: pod.Gang, Seat: pod.Seat, GPUs: pod.GPUs, Percent: pod.Percent})
	for _, gpu := range pod.GPUs {
		if gpu >= 0 && gpu < len(n.Cards) {
			card := &n.Cards[gpu]
			card.Free = max(0, card.Free-pod.Percent)
			card.Pods = append(card.Pods, pod.Label())
		}
	}
}
