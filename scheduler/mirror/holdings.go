// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Account is what decides which queue the GPUs of Pods count for, and as which model.
type Account struct {
	// Namespace is that of the Pods, Label their label falldio.com/queue.
	Namespace, Label string
	Model            string
}

// Holdings returns what the Pods of each account hold, in percent of a GPU, and a number that
// changes with it. Accounts are few, however many Pods there are.
func (m *Mirror) Holdings() (percent map[Account]int, version uint64) {
	m.state.RLock()
	defer m.state.RUnlock()
	return maps.Clone(m.holdings), m.holdingsVersion
}

// HoldingsVersion returns the number that changes whenever Holdings do.
func (m *Mirror) HoldingsVersion() uint64 {
	m.state.RLock()
	defer m.state.RUnlock()
	return m.holdingsVersion
}

// count adds what a Pod holds to its account (sign 1), or subtracts it (-1).
func (m *Mirror) count(e *entry, sign int) {
	if sign > 0 {
		e.counted = 0
		if percent := snapshot.UsePercent(&e.use); percent > 0 {
			e.account, e.counted = m.accountOf(e), percent
		}
	}
	if e.counted == 0 {
		return
	}
	m.holdingsVersion++
	if m.holdings[e.account] += sign * e.counted; m.holdings[e.account] == 0 {
		delete(m.holdings, e.account)
	}
}

func (m *Mirror) accountOf(e *entry) Account {
	account := Account{Namespace: e.pod.Namespace, Label: e.pod.Labels[v1.LabelQueue]}
	if n := m.nodes[e.node]; n != nil {
		account.Model = n.described.Model
	}
	return account
}

// Holding is a Pod that holds GPUs.
type Holding struct {
	// Name is the Pod's in the engine: its UID.
	Name string
	Pod  *corev1.Pod
	// Percent is how much it holds, in percent of a GPU, and Model the model of those GPUs.
	Percent int
	Node    string
	Model   string
	// Slices is the resource of the MIG slices that it holds; empty if it holds whole GPUs or a
	// share of one.
	Slices string
}

// HoldingPods returns the Pods that hold GPUs, in no order, for use within With or For.
func (m *Mirror) HoldingPods() []Holding {
	list := make([]Holding, 0, len(m.pods))
	for uid, e := range m.pods {
		if percent := snapshot.UsePercent(&e.use); percent > 0 {
			list = append(list, Holding{Name: string(uid), Pod: e.pod, Percent: percent, Node: e.node, Model: m.accountOf(e).Model, Slices: snapshot.SlicesOf(&e.use)})
		}
	}
	return list
}

// NodesOf returns the names of the nodes with GPUs of some models.
func (m *Mirror) NodesOf(models []string) (names []string) {
	m.state.RLock()
	defer m.state.RUnlock()
	for name, n := range m.nodes {
		if n.ours && slices.Contains(models, n.described.Model) {
			names = append(names, name)
		}
	}
	return names
}

// GPUNode is a node and its working GPUs, or its MIG slices of a profile.
type GPUNode struct {
	Name, Model string
	// Slices is the resource of the slices; empty for GPUs.
	Slices string
	// Percent is what the GPUs are that work, in percent of one GPU.
	Percent int
}

// GPUNodes returns the nodes with working GPUs that take Pods, in the order of the snapshot, for use
// within With or For. A node with MIG slices that Pods ask for is listed once more for each profile.
func (m *Mirror) GPUNodes() []GPUNode {
	var nodes []GPUNode
	for _, n := range m.order {
		if !n.ours || n.described.Closed {
			continue
		}
		percent := 0
		for i := range n.described.GPUs {
			if !n.described.GPUs[i].Broken {
				percent += placement.Card
			}
		}
		if percent > 0 {
			nodes = append(nodes, GPUNode{Name: n.described.Name, Model: n.described.Model, Percent: percent})
		}
		for _, amount := range n.described.Others {
			if percent := snapshot.SlicePercent(placement.Amounts{amount}); percent > 0 {
				nodes = append(nodes, GPUNode{Name: n.described.Name, Model: n.described.Model, Slices: amount.Resource, Percent: percent})
			}
		}
	}
	return nodes
}
