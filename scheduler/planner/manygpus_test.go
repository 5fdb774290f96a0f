// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/leadership"
	"falldio.github.io/gpu-controller/pkg/placement"
)

func takesManyPods(n *corev1.Node) {
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("250")
	n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("250")
}

func TestAllGPUsThatADevicePluginOffersManyTimesAreUsed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNVIDIANode("a", 100)
	f.change("a", takesManyPods)
	for i := range 100 {
		f.place(pod(fmt.Sprintf("p%d", i), 1, asNVIDIA))
	}
	late := pod("late", 1, asNVIDIA)
	f.comes(late)
	if decision := f.decide(late); decision.Node != "" {
		t.Errorf("a Pod too many: %+v", decision)
	}
}

func TestARackOf72GPUsIsOneNode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("rack", "l", 72)
	f.change("rack", takesManyPods)
	pods := make([]*corev1.Pod, 18)
	for i := range pods {
		pods[i] = pod(fmt.Sprintf("train-%d", i), 4, in("train", len(pods), i))
	}
	f.comes(pods...)
	for _, p := range pods {
		if decision := f.decide(p); decision.Node != "rack" {
			t.Fatalf("decision for %s: %+v", p.Name, decision)
		}
	}
}

func TestAnEventOnTheNodeSaysWhichGPUsAreNotUsed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*corev1.Node)
		want   string // nothing if it is empty
	}{
		"as many as can be": {func(n *corev1.Node) {
			n.Status.Allocatable[v1.ResourceNVIDIAGPU] = resource.MustParse(strconv.Itoa(placement.MaxCards))
		}, ""},
		"more": {func(n *corev1.Node) {
			n.Status.Allocatable[v1.ResourceNVIDIAGPU] = resource.MustParse("2000")
		}, "Warning TooManyGPUs The node has 2000 GPUs, of which gpu-scheduler uses 1024: more of one node are not supported"},
		"an inventory that can't be read": {func(n *corev1.Node) {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, inventory.Annotation, "{")
		}, "Warning InventoryUnreadable gpu-scheduler uses none of the node's GPUs: annotation falldio.com/gpu-inventory: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNVIDIANode("a", 8)
			f.begins(leadership.Always())
			f.change("a", test.change)
			if got := f.event(); got != "" {
				t.Errorf("there is an Event while another process leads: %s", got)
			}
			f.term.IsCurrent()
			node := f.infos["a"].Node()
			f.nodeUpdated(node, node)
			if got := f.event(); !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("Event %q, want %q", got, test.want)
			}
			f.nodeUpdated(node, node)
			if got := f.event(); got != "" {
				t.Errorf("there is another Event: %s", got)
			}
		})
	}
}

func TestACordonedGPUGetsNoFurtherPod(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addNode("a", "l", 2)
	holder := at(pod("holder", 1), "a", 0)
	f.comes(holder)
	f.change("a", func(n *corev1.Node) { n.Annotations[inventory.CordonAnnotation] = "0,a-1" })
	waits := pod("waits", 1)
	f.comes(waits)
	if decision := f.decide(waits); decision.Node != "" {
		t.Fatalf("both GPUs are cordoned, decision %+v", decision)
	}
	f.goes(holder)
	f.clock.Step(fallbackRetry)
	if decision := f.decide(waits); decision.Node != "" {
		t.Fatalf("both GPUs are still cordoned, decision %+v", decision)
	}
	f.change("a", func(n *corev1.Node) { n.Annotations[inventory.CordonAnnotation] = "a-1" })
	if due := f.due(cacheLag); len(due) == 0 {
		t.Error("nobody is woken when the cordon ends")
	}
	if decision := f.decide(waits); decision.Node != "a" || f.cardsOf(waits)[0] != 0 {
		t.Errorf("GPU 0 is used again, decision %+v, cards %v", decision, f.cardsOf(waits))
	}
}

// event returns an Event that was recorded; nothing if there is none.
func (f *fixture) event() string {
	select {
	case event := <-f.handle.recorder.Events:
		return event
	default:
		return ""
	}
}
