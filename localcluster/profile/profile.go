// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package profile describes the simulated nodes of a local cluster.
package profile

import (
	_ "embed"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/pkg/migprofile"
)

// Profile is a cluster's nodes, group by group.
type Profile struct {
	NodeGroups []NodeGroup `json:"nodeGroups"`
}

// NodeGroup is a number of identical nodes.
type NodeGroup struct {
	// Name is the prefix of the nodes' names: "h100" makes h100-0, h100-1 and so on.
	Name string `json:"name"`
	// Count is the number of nodes.
	Count int `json:"count"`
	// Model is the model of the GPUs as the node agent writes it, for example
	// "h100-80gb-hbm3". Nodes without GPUs have none.
	Model string `json:"model,omitempty"`
	// GPUsPerNode is the number of GPUs of each node.
	GPUsPerNode int `json:"gpusPerNode,omitempty"`
	// GPUMemory is the memory of each GPU, for example "81559Mi". The default
	// follows the model: "40960Mi" for "a100-40gb".
	GPUMemory string `json:"gpuMemory,omitempty"`
	// NVLinkGroup is how many GPUs with neighbouring indexes reach each other over
	// NVLink: 2 for bridged pairs, all of a node for a switch. By default none do.
	NVLinkGroup int `json:"nvlinkGroup,omitempty"`
	// MIG divides GPUs of each node into slices, from GPU 0 on. Those that are left over are
	// whole. By default all are.
	MIG []migprofile.Division `json:"mig,omitempty"`
	// CPU of each node, "192" by default.
	CPU string `json:"cpu,omitempty"`
	// Memory of each node, "2Ti" by default.
	Memory string `json:"memory,omitempty"`
	// Pods is the maximum number of Pods on a node, 110 by default.
	Pods int `json:"pods,omitempty"`
	// Pool is the node pool of the nodes. By default they are in none.
	Pool string `json:"pool,omitempty"`
	// NodesPerLeaf assigns the nodes to leaf switches, in order. Leaves are
	// numbered leaf-0, leaf-1 and so on across the whole profile: no two groups
	// share one. By default the nodes have no leaf.
	NodesPerLeaf int `json:"nodesPerLeaf,omitempty"`
	// Labels and Taints are added to each node.
	Labels map[string]string `json:"labels,omitempty"`
	Taints []corev1.Taint    `json:"taints,omitempty"`
}

//go:embed default.yaml
var defaultYAML []byte

// Default returns the built-in profile.
func Default() (*Profile, error) {
	return parse("the built-in profile", defaultYAML)
}

// Load reads a profile from a YAML file.
func Load(path string) (*Profile, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user chose it
	if err != nil {
		return nil, fmt.Errorf("reading the profile: %w", err)
	}
	return parse(path, data)
}

// Select returns the profile selected by the flags: the file's node groups, if
// any, followed by the quick ones. With neither it is the built-in profile.
func Select(path string, quick []string) (*Profile, error) {
	if path == "" && len(quick) == 0 {
		return Default()
	}
	profile := &Profile{}
	if path != "" {
		var err error
		if profile, err = Load(path); err != nil {
			return nil, err
		}
	}
	for _, text := range quick {
		group, err := ParseQuick(text)
		if err != nil {
			return nil, fmt.Errorf("--nodes %q: %w", text, err)
		}
		profile.NodeGroups = append(profile.NodeGroups, group)
	}
	return complete("the node groups", profile)
}

func parse(source string, data []byte) (*Profile, error) {
	profile := &Profile{}
	if err := yaml.UnmarshalStrict(data, profile); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return complete(source, profile)
}

func complete(source string, profile *Profile) (*Profile, error) {
	for i := range profile.NodeGroups {
		setDefaults(&profile.NodeGroups[i])
	}
	if err := validate(profile).ToAggregate(); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return profile, nil
}
