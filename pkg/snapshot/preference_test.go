// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// preferring adds a preferred term of node affinity.
func preferring(p *corev1.Pod, weight int32, term corev1.NodeSelectorTerm) *corev1.Pod {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	}
	affinity := p.Spec.Affinity.NodeAffinity
	affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
		corev1.PreferredSchedulingTerm{Weight: weight, Preference: term})
	return p
}

// discouraging returns a change of a node that adds a taint of effect PreferNoSchedule.
func discouraging(key string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: "v", Effect: corev1.TaintEffectPreferNoSchedule})
	}
}

func tolerates(key string, effect corev1.TaintEffect) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
}

func TestHowWellAPodLikesANode(t *testing.T) {
	t.Parallel()
	ssd, fast := term("disk", corev1.NodeSelectorOpIn, "ssd"), term("net", corev1.NodeSelectorOpExists)
	both := func() *corev1.Pod { return preferring(preferring(pod("gpu=1"), 30, ssd), 10, fast) }
	tests := map[string]struct {
		pod  *corev1.Pod
		node *corev1.Node
		want float64
	}{
		"a Pod without preferences":                   {pod("gpu=1"), node(), 100},
		"the label is there":                          {preferring(pod("gpu=1"), 1, ssd), node(labelled("disk", "ssd")), 100},
		"it is not":                                   {preferring(pod("gpu=1"), 1, ssd), node(), 60},
		"the term of the greater weight matches":      {both(), node(labelled("disk", "ssd")), 60 + 30},
		"that of the lesser weight matches":           {both(), node(labelled("net", "")), 60 + 10},
		"both match":                                  {both(), node(labelled("disk", "ssd"), labelled("net", "")), 100},
		"a term of no weight":                         {preferring(pod("gpu=1"), 0, ssd), node(), 100},
		"an empty term":                               {preferring(pod("gpu=1"), 5, corev1.NodeSelectorTerm{}), node(), 100},
		"a term that makes no sense":                  {preferring(pod("gpu=1"), 5, term("disk", corev1.NodeSelectorOpGt, "x")), node(), 100},
		"a hostname does not count":                   {preferring(pod("gpu=1"), 5, term(corev1.LabelHostname, corev1.NodeSelectorOpIn, "h")), node(), 100},
		"one taint":                                   {pod("gpu=1"), node(discouraging("old")), 40 + 15},
		"two taints":                                  {pod("gpu=1"), node(discouraging("old"), discouraging("loud")), 40 + 3.75},
		"a taint and no preferred label":              {preferring(pod("gpu=1"), 1, ssd), node(discouraging("old")), 15},
		"one of two taints is tolerated":              {tolerating(pod("gpu=1"), tolerates("old", "")), node(discouraging("old"), discouraging("loud")), 40 + 15},
		"the taint is tolerated by its effect":        {tolerating(pod("gpu=1"), tolerates("old", corev1.TaintEffectPreferNoSchedule)), node(discouraging("old")), 100},
		"a toleration of another effect":              {tolerating(pod("gpu=1"), tolerates("old", corev1.TaintEffectNoSchedule)), node(discouraging("old")), 40 + 15},
		"a taint of another effect is the selector's": {pod("gpu=1"), node(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}} }), 100},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shape, err := Shape(test.pod)
			if err != nil {
				t.Fatal(err)
			}
			view := NodeView{}
			view.Track(&shape)
			described, _, err := view.Node(test.node)
			if err != nil {
				t.Fatal(err)
			}
			if got := shape.Preference.Score(described.Traits); got != test.want {
				t.Errorf("score %v, want %v", got, test.want)
			}
		})
	}
}

func TestPreferencesDecideBetweenEqualNodes(t *testing.T) {
	t.Parallel()
	as := func(name string, changes ...func(*corev1.Node)) *corev1.Node {
		n := node(changes...)
		n.Name = name
		return n
	}
	ssd := preferring(pod("gpu=1"), 1, term("disk", corev1.NodeSelectorOpIn, "ssd"))
	tests := map[string]struct {
		pod   *corev1.Pod
		nodes []*corev1.Node
		want  string
	}{
		"nothing is preferred":               {pod("gpu=1"), []*corev1.Node{as("a"), as("b", labelled("disk", "ssd"))}, "a"},
		"a label is preferred":               {ssd, []*corev1.Node{as("a"), as("b", labelled("disk", "ssd"))}, "b"},
		"a taint advises against a node":     {pod("gpu=1"), []*corev1.Node{as("a", discouraging("old")), as("b")}, "b"},
		"a taint counts more than a label":   {ssd, []*corev1.Node{as("a", labelled("disk", "ssd"), discouraging("old")), as("b")}, "b"},
		"there is no other node than a poor": {ssd, []*corev1.Node{as("a", discouraging("old"))}, "a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shape, err := Shape(test.pod)
			if err != nil {
				t.Fatal(err)
			}
			view := NodeView{}
			view.Track(&shape)
			cluster := view.Cluster(packing.New(packing.Default()), test.nodes, nil)
			if place, found := cluster.Find(cluster.Request(shape), cluster.Root()); !found || place.Node != test.want {
				t.Errorf("it goes to %q, want %s", place.Node, test.want)
			}
		})
	}
}

func TestLabelsOfPreferencesAreTracked(t *testing.T) {
	t.Parallel()
	shape, err := Shape(preferring(pod("gpu=1"), 1, term("disk", corev1.NodeSelectorOpExists)))
	if err != nil {
		t.Fatal(err)
	}
	view := NodeView{}
	if diff := cmp.Diff(Tracked{Labels: map[string]map[string]bool{"disk": nil}}, view.Track(&shape)); diff != "" {
		t.Errorf("what is new (-want +got):\n%s", diff)
	}
	if again := view.Track(&shape); !again.IsEmpty() {
		t.Error("it is not known the second time")
	}
}

func TestTraitsThatCannotBeReadAreNotLiked(t *testing.T) {
	t.Parallel()
	shape, err := Shape(pod("gpu=1"))
	if err != nil {
		t.Fatal(err)
	}
	if got := shape.Preference.Score("{"); got != 0 {
		t.Errorf("score %v, want 0", got)
	}
}
