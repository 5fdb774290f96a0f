// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// has returns the UUIDs of the cards of each container in an assignment.
func has(t *testing.T, text string) map[string][]string {
	t.Helper()
	if text == "" {
		return nil
	}
	assignment, err := inventory.ParseAssignment(text)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for name, resources := range assignment.Containers {
		for _, uuids := range resources {
			got[name] = append(got[name], uuids...)
		}
	}
	return got
}

func TestTheCardsOfAPod(t *testing.T) {
	t.Parallel()
	type given = map[string][]string
	tests := map[string]struct {
		pod     *corev1.Pod
		indices []int
		want    given
		use     placement.Use
	}{
		"one container":                     {pod("gpu=2"), []int{1, 3}, given{"c0": {"B", "D"}}, placement.Use{GPUs: []int{1, 3}, Percent: 100}},
		"several containers":                {pod("gpu=1", "cpu=1", "gpu=2"), []int{0, 2, 3}, given{"c0": {"A"}, "c2": {"C", "D"}}, placement.Use{CPU: 1000, GPUs: []int{0, 2, 3}, Percent: 100}},
		"a share":                           {pod("percent=30"), []int{2}, given{"c0": {"C"}}, placement.Use{GPUs: []int{2}, Percent: 30}},
		"shares of several containers":      {pod("percent=30", "percent=20"), []int{2}, given{"c0": {"C"}, "c1": {"C"}}, placement.Use{GPUs: []int{2}, Percent: 50}},
		"all percent of a card":             {pod("percent=100"), []int{2}, given{"c0": {"C"}}, placement.Use{GPUs: []int{2}, Percent: 100}},
		"an init container has them before": {withInit(pod("gpu=2"), "gpu=1"), []int{1, 2}, given{"c0": {"B", "C"}, "init": {"B"}}, placement.Use{GPUs: []int{1, 2}, Percent: 100}},
		"only an init container":            {withInit(pod("cpu=1"), "gpu=1"), []int{1}, given{"init": {"B"}}, placement.Use{CPU: 1000, GPUs: []int{1}, Percent: 100}},
		"a sidecar has its own":             {withSidecar(pod("gpu=1"), "gpu=1"), []int{1, 2}, given{"c0": {"B"}, "sidecar": {"C"}}, placement.Use{GPUs: []int{1, 2}, Percent: 100}},
		"as NVIDIA names them":              {pod("nvidia.com/gpu=2"), []int{1, 2}, nil, placement.Use{}},
		"none":                              {pod("cpu=1"), nil, nil, placement.Use{CPU: 1000}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cards := newCards([]string{"A", "B", "C", "D"})
			text, err := cards.Assignment(test.pod, test.indices)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, has(t, text)); diff != "" {
				t.Errorf("assignment (-want +got):\n%s", diff)
			}
			p := test.pod.DeepCopy()
			p.Annotations[inventory.AssignmentAnnotation] = text
			indices, known := cards.Assigned(p)
			if known != (text != "") {
				t.Errorf("known is %t", known)
			}
			if !slices.IsSorted(indices) {
				t.Errorf("indices %v, want them in order: they are compared", indices)
			}
			if diff := cmp.Diff(test.use, Use(p, indices)); diff != "" {
				t.Errorf("use (-want +got):\n%s", diff)
			}
		})
	}
}

// Many containers, so that the order of a map shows.
func TestAssignedCardsAreInOrder(t *testing.T) {
	t.Parallel()
	cards := newCards([]string{"A", "B", "C", "D", "E", "F", "G", "H"})
	p := pod("gpu=1", "gpu=1", "gpu=1", "gpu=1", "gpu=1", "gpu=1", "gpu=1", "gpu=1")
	text, err := cards.Assignment(p, []int{0, 1, 2, 3, 4, 5, 6, 7})
	if err != nil {
		t.Fatal(err)
	}
	p.Annotations[inventory.AssignmentAnnotation] = text
	for range 20 {
		if got, _ := cards.Assigned(p); !slices.IsSorted(got) {
			t.Fatalf("indices %v", got)
		}
	}
}

func TestAssignmentsThatSayNothing(t *testing.T) {
	t.Parallel()
	cards := newCards([]string{"A", "B"})
	for name, text := range map[string]string{
		"nothing":                     "",
		"invalid JSON":                "{",
		"a version of the future":     `{"version":"v9","containers":{"c0":{"falldio.com/gpu":["A"]}}}`,
		"no cards":                    `{"version":"v1","containers":{"c0":{"falldio.com/gpu":[]}}}`,
		"only devices of other kinds": `{"version":"v1","containers":{"c0":{"falldio.com/rdma":["A"]}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pod("gpu=1")
			p.Annotations[inventory.AssignmentAnnotation] = text
			if got, known := cards.Assigned(p); known {
				t.Errorf("it has cards %v", got)
			}
		})
	}
}

func TestNamesAreNeededForAnAssignment(t *testing.T) {
	t.Parallel()
	if text, err := (Cards{}).Assignment(pod("gpu=1"), []int{0}); text != "" || err != nil {
		t.Errorf("assignment %q, error %v", text, err)
	}
}

func TestCardsAreTranslated(t *testing.T) {
	t.Parallel()
	before := newCards([]string{"A", "B", "C"})
	tests := map[string]struct {
		now     Cards
		indices []int
		want    []int
	}{
		"nothing has changed":    {newCards([]string{"A", "B", "C"}), []int{0, 2}, []int{0, 2}},
		"they changed places":    {newCards([]string{"C", "B", "A"}), []int{0, 1}, []int{2, 1}},
		"one has gone":           {newCards([]string{"B", "C"}), []int{0, 2}, []int{1}},
		"all have gone":          {Cards{}, []int{0, 2}, nil},
		"one that never existed": {newCards([]string{"A", "B", "C"}), []int{7}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, test.now.Translate(before, test.indices)); diff != "" {
				t.Errorf("indices (-want +got):\n%s", diff)
			}
		})
	}
	if got := before.Translate(Cards{}, []int{1}); !slices.Equal(got, []int{1}) {
		t.Errorf("cards without names before: %v, want them as they were", got)
	}
}

// Whoever writes the annotation, a Pod has no more cards than it asks for.
func TestAPodHasNoMoreCardsThanItAsksFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod   *corev1.Pod
		cards map[string][]string
		want  []int
	}{
		"as many as it asks for":            {pod("gpu=2"), map[string][]string{"c0": {"A", "C"}}, []int{0, 2}},
		"one more":                          {pod("gpu=2"), map[string][]string{"c0": {"A", "B", "C"}}, nil},
		"one more in another container":     {pod("gpu=1", "cpu=1"), map[string][]string{"c0": {"A"}, "c1": {"B"}}, nil},
		"one more in a container it lacks":  {pod("gpu=1"), map[string][]string{"c0": {"A"}, "c9": {"B"}}, nil},
		"one more that the node lacks":      {pod("gpu=1"), map[string][]string{"c0": {"A", "X"}}, nil},
		"the same one twice":                {withInit(pod("gpu=1"), "gpu=1"), map[string][]string{"c0": {"A"}, "init": {"A"}}, []int{0}},
		"an init container may have more":   {withInit(pod("gpu=1"), "gpu=2"), map[string][]string{"c0": {"A"}, "init": {"A", "B"}}, []int{0, 1}},
		"as NVIDIA names them":              {pod("nvidia.com/gpu=2"), map[string][]string{"c0": {"A", "B"}}, []int{0, 1}},
		"more, as NVIDIA names them":        {pod("nvidia.com/gpu=1"), map[string][]string{"c0": {"A", "B"}}, nil},
		"a share of one":                    {pod("percent=30"), map[string][]string{"c0": {"B"}}, []int{1}},
		"a share of two":                    {pod("percent=30"), map[string][]string{"c0": {"B", "C"}}, nil},
		"all percent of one are one":        {pod("percent=100"), map[string][]string{"c0": {"B", "C"}}, nil},
		"a Pod that asks for none has none": {pod("cpu=1"), map[string][]string{"c0": {"A"}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assignment := inventory.Assignment{}
			for container, uuids := range test.cards {
				assignment.Add(container, "falldio.com/gpu", uuids...)
			}
			text, err := assignment.String()
			if err != nil {
				t.Fatal(err)
			}
			test.pod.Annotations[inventory.AssignmentAnnotation] = text
			got, known := newCards([]string{"A", "B", "C", "D"}).Assigned(test.pod)
			if known != (test.want != nil) {
				t.Errorf("known is %t", known)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("cards (-want +got):\n%s", diff)
			}
		})
	}
}
