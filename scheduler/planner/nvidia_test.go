// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// asNVIDIA makes a Pod ask for its GPUs as nvidia.com/gpu.
func asNVIDIA(p *corev1.Pod) {
	requests := p.Spec.Containers[0].Resources.Requests
	requests[v1.ResourceNVIDIAGPU] = requests[v1.ResourceGPU]
	delete(requests, v1.ResourceGPU)
}

// addNVIDIANode adds a node whose cards NVIDIA's device plugin gives out, without an agent.
func (f *fixture) addNVIDIANode(name string, cards int) {
	f.t.Helper()
	f.addNode(name, "l", cards)
	node := f.infos[name].Node().DeepCopy()
	delete(node.Annotations, inventory.Annotation)
	delete(node.Status.Allocatable, v1.ResourceGPU)
	node.Status.Allocatable[v1.ResourceNVIDIAGPU] = resource.MustParse(strconv.Itoa(cards))
	f.infos[name].SetNode(node)
}

func TestAGangWithNVIDIAsGPUsWaitsAsAWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNVIDIANode("a", 2)
	f.addNode("b", "l", 4)
	other := at(pod("other", 1, asNVIDIA), "a")
	f.comes(other)
	pods := gang("train", 2, 2, asNVIDIA)
	f.comes(pods...)
	decision := f.decide(pods[0])
	for _, want := range []string{"needs at once 2 × 1 GPU, 1 CPU, asked for as nvidia.com/gpu", "1 does not offer nvidia.com/gpu", "it would start with one more free GPU"} {
		if decision.Node != "" || !strings.Contains(decision.Waits, want) {
			t.Errorf("decision %+v, want one that waits since %q", decision, want)
		}
	}
	f.goes(other)
	for _, p := range pods {
		decision := f.decide(p)
		if decision.Node != "a" {
			t.Fatalf("there is room now, decision for %s: %+v", p.Name, decision)
		}
		if text, err := f.mirror.Assignment(p); text != "" || err != nil {
			t.Errorf("%s is to be bound with the assignment %q, error %v", p.Name, text, err)
		}
	}
}

func TestAPodThatAsksForBothNamesIsToldWhatToDo(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNVIDIANode("a", 2)
	p := pod("p", 1, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[v1.ResourceNVIDIAGPU] = resource.MustParse("1")
	})
	f.comes(p)
	if decision := f.decide(p); !strings.Contains(decision.Wrong, "ask for all of them with one of the names") {
		t.Errorf("decision %+v", decision)
	}
}

// A DeviceClass may stand behind the resource; only kube-scheduler's filters know.
func TestGPUsThatNoNodeListsKeepAPodFromNoNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 0)
	pods := gang("train", 2, 2, asNVIDIA)
	f.comes(pods...)
	for _, p := range pods {
		if decision := f.decide(p); decision.Node != "a" {
			t.Errorf("decision for %s: %+v", p.Name, decision)
		}
	}
	f.addNVIDIANode("b", 1)
	later := pod("later", 2, asNVIDIA)
	f.comes(later)
	if decision := f.decide(later); decision.Node != "" || !strings.Contains(decision.Waits, "1 does not offer nvidia.com/gpu") {
		t.Errorf("a node lists the resource now, decision %+v", decision)
	}
}

func TestWhoAsksForGPUsThatNoNodeListsCompetesForNodesAndIsMoved(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, name := range []string{"a", "b"} {
		f.addNode(name, "l", 0)
		f.change(name, func(n *corev1.Node) { n.Labels[v1.LabelNodePool] = name })
		f.keep(name, moved("to-"+name))
	}
	for _, node := range []string{"a", "b"} {
		anywhere, there := pod("to-"+node, 1, asNVIDIA), pod("in-"+node, 1, asNVIDIA)
		there.Spec.NodeSelector = map[string]string{v1.LabelNodePool: node}
		f.comes(anywhere, there)
		if decision := f.decide(anywhere); decision.Node != node {
			t.Errorf("a Pod that is moved to node %s gets %+v", node, decision)
		}
		class := f.line.CompetesFor(&f.registry.Member(there.UID).Shape)
		if want := " in " + node; class != want {
			t.Errorf("one with a node selector competes for nodes of %q, want %q", class, want)
		}
	}
}

func TestOnlyTheNamesInTheArgumentsConcernThePlanner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	alone, member := pod("alone", 1, asNVIDIA), pod("member", 1, in("train", 1, 0), asNVIDIA)
	if !f.Concerns(alone) {
		t.Error("without arguments all names count")
	}
	f.registry.Handle([]corev1.ResourceName{v1.ResourceGPU})
	for _, test := range []struct {
		pod  *corev1.Pod
		want bool
	}{{alone, false}, {member, true}, {pod("ours", 1), true}, {pod("share", 0, asShare), true}} {
		if got := f.Concerns(test.pod); got != test.want {
			t.Errorf("Pod %s concerns it: %t, want %t", test.pod.Name, got, test.want)
		}
	}
	f.addNVIDIANode("a", 2)
	f.comes(alone, member)
	if f.registry.Member(alone.UID) != nil {
		t.Error("it plans for a Pod that does not concern it")
	}
	if decision := f.decide(member); decision.Node != "a" {
		t.Errorf("a gang's member is planned, and its cards left to kube-scheduler: %+v", decision)
	}
}

func asShare(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests[v1.ResourceGPUPercent] = resource.MustParse("30")
}
