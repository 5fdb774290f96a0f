// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/spelling"
)

// Level is a kind of domain that nodes are in, and the node label that names the domain.
type Level struct {
	Name      string
	NodeLabel string
}

// Levels are ordered from the widest to the narrowest: zones, racks, leaves.
type Levels []Level

// DefaultLevels returns the levels of a cluster for which none are configured.
func DefaultLevels() Levels {
	return Levels{
		{Name: "zone", NodeLabel: "topology.kubernetes.io/zone"},
		{Name: "rack", NodeLabel: v1.GroupName + "/rack"},
		{Name: "leaf", NodeLabel: v1.LabelLeaf},
	}
}

// ParseLevels parses "zone=topology.kubernetes.io/zone,leaf=falldio.com/leaf": names and
// labels, the widest first. An empty text means no levels.
func ParseLevels(text string) (Levels, error) {
	var levels Levels
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, label, found := strings.Cut(part, "=")
		name, label = strings.TrimSpace(name), strings.TrimSpace(label)
		switch {
		case !found || name == "" || label == "":
			return nil, fmt.Errorf("%q: must be a level's name and a label of nodes, as in leaf=%s", part, v1.LabelLeaf)
		case seen[name]:
			return nil, fmt.Errorf("%q: level %s is listed twice", part, name)
		}
		if problems := validation.IsQualifiedName(label); len(problems) > 0 {
			return nil, fmt.Errorf("%q: label %q: %s", part, label, strings.Join(problems, "; "))
		}
		seen[name] = true
		levels = append(levels, Level{Name: name, NodeLabel: label})
	}
	return levels, nil
}

// String returns the format that ParseLevels parses.
func (l Levels) String() string {
	parts := make([]string, len(l))
	for i := range l {
		parts[i] = l[i].Name + "=" + l[i].NodeLabel
	}
	return strings.Join(parts, ",")
}

// Number returns the level's number in package placement, from 1. An error lists the
// existing levels.
func (l Levels) Number(name string) (int, error) {
	index := slices.IndexFunc(l, func(level Level) bool { return level.Name == name })
	if index < 0 {
		if len(l) == 0 {
			return 0, fmt.Errorf("there is no topology level %q: gpu-scheduler is configured without levels", name)
		}
		return 0, fmt.Errorf("there is no topology level %q; the levels are %s%s", name, plural.List(l.Names()), spelling.DidYouMean(spelling.Nearest(name, l.Names())))
	}
	return index + 1, nil
}

// Names returns the levels' names.
func (l Levels) Names() []string {
	names := make([]string, len(l))
	for i := range l {
		names[i] = l[i].Name
	}
	return names
}

// PlainDomains removes the levels without a name from a path of domains, or from a text of the engine with such paths:
// it returns "rack-1/leaf-3" for "-/rack-1/leaf-3". No label ends in a hyphen.
func PlainDomains(text string) string { return strings.ReplaceAll(text, placement.Unnamed+"/", "") }

// path returns the domains that a node with these labels is in, from the widest to the
// narrowest for which it has a label: two nodes without a leaf are not in the same leaf.
func (l Levels) path(labels map[string]string) []string {
	var path []string
	for i, level := range l {
		if labels[level.NodeLabel] == "" {
			continue
		}
		for len(path) < i {
			path = append(path, placement.Unnamed)
		}
		path = append(path, labels[level.NodeLabel])
	}
	return path
}
