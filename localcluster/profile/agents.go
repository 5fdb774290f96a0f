// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/pkg/migprofile"
)

// simulatedNode is an entry of the file that nodeagent reads with
// --simulated-nodes.
type simulatedNode struct {
	Name    string        `json:"name"`
	Model   string        `json:"model"`
	Profile simulatedGPUs `json:"profile"`
}

type simulatedGPUs struct {
	Product string                `json:"product"`
	Count   int                   `json:"count"`
	Memory  string                `json:"memory"`
	NVLink  simulatedLinks        `json:"nvlink"`
	MIG     []migprofile.Division `json:"mig,omitempty"`
}

type simulatedLinks struct {
	GroupSize int `json:"groupSize"`
}

// Agents returns the YAML file with which nodeagent is the agent of every node
// with GPUs.
func (p *Profile) Agents() ([]byte, error) {
	nodes := []simulatedNode{}
	for _, group := range p.NodeGroups {
		if group.GPUsPerNode == 0 {
			continue
		}
		for i := range group.Count {
			nodes = append(nodes, simulatedNode{
				Name:  group.nodeName(i),
				Model: group.Model,
				Profile: simulatedGPUs{
					Product: group.Model,
					Count:   group.GPUsPerNode,
					Memory:  group.GPUMemory,
					NVLink:  simulatedLinks{GroupSize: group.NVLinkGroup},
					MIG:     group.MIG,
				},
			})
		}
	}
	return yaml.Marshal(nodes)
}

// HasGPUs reports whether any node has GPUs.
func (p *Profile) HasGPUs() bool {
	return slices.ContainsFunc(p.NodeGroups, func(group NodeGroup) bool { return group.GPUsPerNode > 0 })
}

func (g *NodeGroup) nodeName(index int) string { return fmt.Sprintf("%s-%d", g.Name, index) }
