// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// gangOf returns Pods of a gang, each of which asks for what its text says.
func gangOf(minimum string, texts ...string) []*corev1.Pod {
	var pods []*corev1.Pod
	for i, text := range texts {
		p := pod(text)
		p.Name = fmt.Sprintf("g-%d", i)
		p.Labels[v1.LabelPodGroup], p.Labels[v1.LabelMinAvailable] = "g", minimum
		pods = append(pods, p)
	}
	return pods
}

func inOneLeaf(pods []*corev1.Pod, level string) []*corev1.Pod {
	for _, p := range pods {
		p.Annotations[v1.AnnotationTopologyLevel] = level
		p.Annotations[v1.AnnotationTopologyMode] = string(v1.TopologyRequired)
	}
	return pods
}

func TestPodsThatWaitAreAGangForTheEngine(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pods   []*corev1.Pod
		placed int
		// want are the roles: GPUs, least and most Pods.
		want     [][3]int
		level    int
		required bool
		err      string
	}{
		"a Pod that is alone":                           {pods: []*corev1.Pod{pod("gpu=2")}, want: [][3]int{{2, 1, 1}}},
		"equal ones are one role":                       {pods: gangOf("3", "gpu=1", "gpu=1", "gpu=1"), want: [][3]int{{1, 3, 3}}},
		"different ones are several":                    {pods: gangOf("3", "gpu=1", "gpu=4", "gpu=1"), want: [][3]int{{1, 2, 2}, {4, 1, 1}}},
		"those above the minimum join if there is room": {pods: gangOf("2", "gpu=1", "gpu=1", "gpu=1"), want: [][3]int{{1, 2, 3}}},
		"those that have a node count":                  {pods: gangOf("4", "gpu=1", "gpu=1"), placed: 2, want: [][3]int{{1, 2, 2}}},
		"one has to come even if enough have a node":    {pods: gangOf("2", "gpu=1", "gpu=1"), placed: 3, want: [][3]int{{1, 1, 2}}},
		"the level that all have to be in one of":       {pods: inOneLeaf(gangOf("1", "gpu=1"), "leaf"), want: [][3]int{{1, 1, 1}}, level: 3, required: true},
		"a level that there is not":                     {pods: inOneLeaf(gangOf("1", "gpu=1"), "aisle"), err: `there is no topology level "aisle"`},
		"a Pod with an invalid request":                 {pods: []*corev1.Pod{pod("percent=500")}, err: "of Pod p: asks for 500"},
		"labels that make no sense":                     {pods: gangOf("many", "gpu=1"), err: "of Pod g-0: label falldio.com/min-available"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Waiting(DefaultLevels(), test.pods, test.placed)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var roles [][3]int
			for i := range got.Roles {
				roles = append(roles, [3]int{got.Roles[i].Shape.GPUs, got.Roles[i].Min, got.Roles[i].Max})
			}
			if diff := cmp.Diff(test.want, roles); diff != "" {
				t.Errorf("roles (-want +got):\n%s", diff)
			}
			if got.Level != test.level || got.Required != test.required {
				t.Errorf("level %d, required %t", got.Level, got.Required)
			}
		})
	}
}

func TestThePlacesOfAPlanGoToTheMembersOfTheirRoles(t *testing.T) {
	t.Parallel()
	gang, err := Waiting(DefaultLevels(), gangOf("3", "gpu=1", "gpu=4", "gpu=1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	pods, places := gang.Assign(&placement.Plan{Members: []placement.Member{
		{Role: 1, Place: placement.Place{Node: "a"}}, {Role: 0, Place: placement.Place{Node: "b"}}, {Role: 0, Place: placement.Place{Node: "c"}},
	}})
	got := map[string]string{}
	for i := range pods {
		got[pods[i].Name] = places[i].Node
	}
	if diff := cmp.Diff(map[string]string{"g-1": "a", "g-0": "b", "g-2": "c"}, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}
