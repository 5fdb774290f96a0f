// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// quickFields says which keys --nodes knows, and what they set.
var quickFields = map[string]func(group *NodeGroup, value string) error{
	"name":           func(g *NodeGroup, v string) error { g.Name = v; return nil },
	"model":          func(g *NodeGroup, v string) error { g.Model = v; return nil },
	"count":          func(g *NodeGroup, v string) error { return setInt(&g.Count, v) },
	"gpus":           func(g *NodeGroup, v string) error { return setInt(&g.GPUsPerNode, v) },
	"gpu-memory":     func(g *NodeGroup, v string) error { g.GPUMemory = v; return nil },
	"cpu":            func(g *NodeGroup, v string) error { g.CPU = v; return nil },
	"memory":         func(g *NodeGroup, v string) error { g.Memory = v; return nil },
	"pods":           func(g *NodeGroup, v string) error { return setInt(&g.Pods, v) },
	"pool":           func(g *NodeGroup, v string) error { g.Pool = v; return nil },
	"nodes-per-leaf": func(g *NodeGroup, v string) error { return setInt(&g.NodesPerLeaf, v) },
}

// QuickKeys lists the keys of --nodes in alphabetical order.
func QuickKeys() []string {
	keys := make([]string, 0, len(quickFields))
	for key := range quickFields {
		keys = append(keys, key)
	}
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
		set, known := quickFields[key]
		if !known {
			return NodeGroup{}, fmt.Errorf("unknown key %q: expected one of %s", key, strings.Join(QuickKeys(), ", "))
		}
		if given[key] {
			return NodeGroup{}, fmt.Errorf("%s is given twice", key)
		}
		given[key] = true
		if err := set(&group, value); err != nil {
			return NodeGroup{}, fmt.Errorf("%s=%s: %w", key, value, err)
		}
	}
	if group.Name == "" {
		group.Name = group.Model
	}
	return group, nil
}

func setInt(field *int, value string) error {
	number, err := strconv.Atoi(value)
	if err != nil {
		return errors.New("expected a whole number")
	}
	*field = number
	return nil
}
