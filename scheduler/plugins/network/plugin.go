// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network is the kube-scheduler plugin NetworkSpeed: it prefers nodes that
// reach a Pod's target fast. Pods name it in the annotations
// falldio.com/network-target and falldio.com/network-module. The node agents
// measure in the background; scoring reads memory.
package network

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name is the plugin's name.
const Name = "NetworkSpeed"

// Plugin is NetworkSpeed of one profile.
type Plugin struct {
	measuring *measuring
}

var (
	_ fwk.PreScorePlugin = (*Plugin)(nil)
	_ fwk.ScorePlugin    = (*Plugin)(nil)
	_ fwk.SignPlugin     = (*Plugin)(nil)
)

// Name implements fwk.Plugin.
func (p *Plugin) Name() string { return Name }

// stateKey is where PreScore stores the scores.
const stateKey fwk.StateKey = Name

// cycle is the scores of a Pod's nodes. It does not change once it is written.
type cycle map[string]int64

// Clone implements fwk.StateData.
func (c cycle) Clone() fwk.StateData { return c }

// PreScore implements fwk.PreScorePlugin. It compares all nodes at once, as a
// node's score depends on the others.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	question, wants := p.measuring.args.question(pod)
	if !wants {
		return fwk.NewStatus(fwk.Skip)
	}
	p.measuring.wanted.Asked(pod.Namespace, question)
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Node().Name
	}
	list := scores(p.measuring.estimator.Estimates(question, names), milliseconds(p.measuring.args.TypicalMilliseconds))
	byNode := make(cycle, len(nodes))
	for i, name := range names {
		byNode[name] = list[i]
	}
	state.Write(stateKey, byNode)
	return nil
}

// Score implements fwk.ScorePlugin.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read(stateKey)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	byNode, ok := data.(cycle)
	if !ok {
		return neutral, nil // only PreScore writes it
	}
	score, known := byNode[node.Node().Name]
	if !known {
		return neutral, nil
	}
	return score, nil
}

// ScoreExtensions implements fwk.ScorePlugin. The scores are comparable with those
// of other plugins already: stretching them would make unknown nodes best or
// worst, and noise decisive.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// SignPod implements fwk.SignPlugin: Pods that want the same target are scored alike.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	question, wants := p.measuring.args.question(pod)
	if !wants {
		return nil, nil
	}
	return []fwk.SignFragment{{Key: "falldio.com/" + Name, Value: question}}, nil
}
