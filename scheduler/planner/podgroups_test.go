// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

func trainGroup() snapshot.GroupRef {
	return snapshot.GroupRef{API: snapshot.KubernetesGroups, Namespace: "default", Name: "train"}
}

// ofGroup makes a Pod name the PodGroup.
func ofGroup(p *corev1.Pod) {
	name := trainGroup().Name
	p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
}

func TestAPodGroupIsPlacedAsItsObjectSays(t *testing.T) {
	f := newFixture(t)
	listener := groupListener{f.Planner}
	f.addNode("big", "one", 3)
	f.addNode("small", "two", 1)
	first, second := pod("a", 1, ofGroup), pod("b", 3, ofGroup)
	f.comes(first, second)
	listener.SetGroups(trainGroup().API, gangs.GroupsListed)
	if decision := f.decide(first); !strings.Contains(decision.Wrong, "waits for PodGroup train") {
		t.Errorf("without an object: %+v", decision)
	}
	f.handle.takeActivated()
	listener.ObserveGroup(trainGroup(), snapshot.PodGroup{Min: 2, TopologyKey: v1.LabelLeaf})
	if diff := cmp.Diff([]string{"a"}, f.handle.takeActivated()); diff != "" {
		t.Errorf("activated (-want +got):\n%s", diff)
	}
	if decision := f.decide(first); decision.Node != "" || !strings.Contains(decision.Waits, "in one leaf") {
		t.Errorf("no leaf has room: %+v", decision)
	}
	listener.ObserveGroup(trainGroup(), snapshot.PodGroup{Min: 2})
	if decision := f.decide(first); decision.Node != "small" {
		t.Errorf("both fit in different leaves: %+v", decision)
	}
	listener.ForgetGroup(trainGroup())
	if decision := f.decide(second); decision.Node != "big" {
		t.Errorf("the object is gone when the places are taken: %+v", decision)
	}
}

func TestATopologyKeyOfNoLevelIsReported(t *testing.T) {
	f := newFixture(t)
	f.addNode("n", "one", 3)
	p := pod("a", 1, ofGroup)
	f.comes(p)
	groupListener{f.Planner}.ObserveGroup(trainGroup(), snapshot.PodGroup{Min: 1, TopologyKey: "example.com/row"})
	if decision := f.decide(p); !strings.Contains(decision.Wrong, "add it to topologyLevels") {
		t.Errorf("%+v", decision)
	}
}
