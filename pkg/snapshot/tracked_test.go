// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// requiring returns the Pod with terms of its node affinity, of which one has to match.
func requiring(pod *corev1.Pod, terms ...corev1.NodeSelectorTerm) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
	return pod
}

// hosts returns nodes with hostnames and numbers.
func hosts(count int) []*corev1.Node {
	list := make([]*corev1.Node, count)
	for i := range list {
		list[i] = node(labelled(corev1.LabelHostname, fmt.Sprint("host-", i)), labelled("number", fmt.Sprint(i)))
		list[i].Name = fmt.Sprint("node-", i)
	}
	return list
}

func mustShape(t *testing.T, pod *corev1.Pod) placement.Shape {
	t.Helper()
	shape, err := Shape(pod)
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

// Nodes that no Pod can tell apart are one for the engine, whose work grows with the number of different ones.
func TestNodesDifferOnlyByWhatAPodAsksAboutTheirLabels(t *testing.T) {
	t.Parallel()
	field := func(name string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: NodeNameKey, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}
	}
	tests := map[string]struct {
		pod       *corev1.Pod
		different int
		room      []string // the nodes that it may use; nil for all
	}{
		"any host":                     {requiring(pod("gpu=1"), term(corev1.LabelHostname, corev1.NodeSelectorOpExists)), 1, nil},
		"a host, or something else":    {requiring(pod("gpu=1"), term(corev1.LabelHostname, corev1.NodeSelectorOpIn, "host-3"), term("number", corev1.NodeSelectorOpIn, "5", "x")), 3, []string{"node-3", "node-5"}},
		"a node, or something else":    {requiring(pod("gpu=1"), field("node-3"), term("number", corev1.NodeSelectorOpIn, "5")), 3, []string{"node-3", "node-5"}},
		"all hosts but one, or nobody": {requiring(pod("gpu=1"), term(corev1.LabelHostname, corev1.NodeSelectorOpNotIn, "host-3"), term("x", corev1.NodeSelectorOpExists)), 2, nil},
		"a label of each node":         {selecting(pod("gpu=1"), "number", "7"), 2, []string{"node-7"}},
		"numbers":                      {requiring(pod("gpu=1"), term("number", corev1.NodeSelectorOpGt, "97")), 100, []string{"node-98", "node-99"}},
		"a label that is preferred":    {preferring(pod("gpu=1"), 1, term("number", corev1.NodeSelectorOpIn, "7")), 2, nil},
		"a label that no node has":     {selecting(pod("gpu=1"), "x", "y"), 1, []string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shape, view := mustShape(t, test.pod), NodeView{}
			view.Track(&shape)
			cluster := view.Cluster(packing.New(packing.Default()), hosts(100), nil)
			states := 0
			cluster.Root().States(func(*placement.State, int) { states++ })
			if states != test.different {
				t.Errorf("the nodes are %d different ones for the engine, want %d", states, test.different)
			}
			for _, ranked := range cluster.Rank(cluster.Request(shape), cluster.Root()) {
				if test.room == nil && ranked.Node == "node-3" && name == "all hosts but one, or nobody" {
					t.Error("it may use the node that it excludes")
				}
			}
			if test.room == nil {
				return
			}
			got := map[string]bool{}
			for _, ranked := range cluster.Rank(cluster.Request(shape), cluster.Root()) {
				got[ranked.Node] = true
			}
			want := map[string]bool{}
			for _, one := range test.room {
				want[one] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("nodes that it may use (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatNobodyAsksAboutAnyMoreIsTrackedNoLonger(t *testing.T) {
	t.Parallel()
	ssd, hdd := mustShape(t, selecting(pod("gpu=1,rdma/hca=1"), "disk", "ssd")), mustShape(t, selecting(pod("gpu=1"), "disk", "hdd"))
	above := mustShape(t, requiring(pod("gpu=1"), term("number", corev1.NodeSelectorOpGt, "5")))
	values := func(of ...string) map[string]bool {
		set := map[string]bool{}
		for _, one := range of {
			set[one] = true
		}
		return set
	}
	view := NodeView{}
	if diff := cmp.Diff(Tracked{Labels: map[string]map[string]bool{"disk": nil}, Resources: values("rdma/hca")}, view.Track(&ssd)); diff != "" {
		t.Errorf("a first Pod: new is (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Tracked{Labels: map[string]map[string]bool{"disk": values("hdd")}}, view.Track(&hdd)); diff != "" {
		t.Errorf("a second Pod: new is (-want +got):\n%s", diff)
	}
	view.Track(&above)
	if gone := view.Sweep(); !gone.IsEmpty() {
		t.Errorf("what was just asked about is gone: %v", gone)
	}
	view.Track(&hdd)
	want := Tracked{Labels: map[string]map[string]bool{"disk": values("ssd"), "number": nil}, Resources: values("rdma/hca")}
	if diff := cmp.Diff(want, view.Sweep()); diff != "" {
		t.Errorf("when only the second one still asks: gone is (-want +got):\n%s", diff)
	}
	view.Sweep()
	if view.Size() != 0 {
		t.Errorf("when nobody asks any more, %d labels, values and resources are tracked", view.Size())
	}
}

func TestNodesThatATrackedPartConcerns(t *testing.T) {
	t.Parallel()
	part := Tracked{
		Labels:    map[string]map[string]bool{"any": nil, "disk": {"ssd": true}, NodeNameKey: {"named": true}},
		Resources: map[string]bool{"rdma/hca": true},
	}
	named := node()
	named.Name = "named"
	for name, test := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"no label":                          {node(labelled("x", "y")), false},
		"a label of which all values count": {node(labelled("any", "x")), true},
		"a value that counts":               {node(labelled("disk", "ssd")), true},
		"another value":                     {node(labelled("disk", "hdd")), false},
		"its name":                          {named, true},
		"a resource":                        {node(having("rdma/hca", "1")), true},
	} {
		if got := part.On(test.node); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
