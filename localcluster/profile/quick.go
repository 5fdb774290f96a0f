// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// quickTexts and quickNumbers map the keys of --nodes to the fields that they set.
var (
	quickTexts = map[string]func(*NodeGroup) *string{
		"name":       func(g *NodeGroup) *string { return &g.Name },
		"model":      func(g *NodeGroup) *string { return &g.Model },
		"gpu-memory": func(g *NodeGroup) *string { return &g.GPUMemory },
		"cpu":        func(g *NodeGroup) *string { return &g.CPU },
		"memory":     func(g *NodeGroup) *string { return &g.Memory },
		"pool":       func(g *NodeGroup) *string { return &g.Pool },
	}
	quickNumbers = map[string]func(*NodeGroup) *int{
		"count":          func(g *NodeGroup) *int { return &g.Count },
		"nvlink-group":   func(g *NodeGroup) *int { return &g.NVLinkGroup },
		"gpus":           func(g *NodeGroup) *int { return &g.GPUsPerNode },
		"pods":           func(g *NodeGroup) *int { return &g.Pods },
		"nodes-per-leaf": func(g *NodeGroup) *int { return &g.NodesPerLeaf },
	}
)

// QuickKeys lists the keys of --nodes in alphabetical order.
func QuickKeys() []string {
	keys := slices.Collect(maps.Keys(quickTexts))
	keys = slices.AppendSeq(keys, maps.Keys(quickNumbers))
	slices.Sort(keys)
	return keys
}

// ParseQuick reads a node group from one line, for example
// "model=h100-80gb-hbm3,count=100,gpus=8". The group's name is its model unless
// given, and its count 1.
func ParseQuick(text string) (NodeGroup, error) {
	group := NodeGroup{Count: 1}
	given := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(strings.TrimSpace(part), "=")
		if !found {
			return NodeGroup{}, fmt.Errorf("%q: expected key=value pairs separated by commas, for example model=h100-80gb-hbm3,count=100,gpus=8", part)
		}
		if given[key] {
			return NodeGroup{}, fmt.Errorf("%s is given twice", key)
		}
		given[key] = true
		if err := set(&group, key, value); err != nil {
			return NodeGroup{}, fmt.Errorf("%s=%s: %w", key, value, err)
		}
	}
	if group.Name == "" {
		group.Name = group.Model
	}
	return group, nil
}

func set(group *NodeGroup, key, value string) error {
	if text := quickTexts[key]; text != nil {
		*text(group) = value
		return nil
	}
	number := quickNumbers[key]
	if number == nil {
		return fmt.Errorf("unknown key: expected one of %s", strings.Join(QuickKeys(), ", "))
	}
	parsed, err := strconv.Atoi(value)
	if err != nil {
		return errors.New("expected a whole number")
	}
	*number(group) = parsed
	return nil
}
