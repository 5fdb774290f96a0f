// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

func TestShapesAreValidated(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		shape placement.Shape
		want  string // empty if it is valid
	}{
		"nothing at all is a shape":      {shapeOf{}, ""},
		"whole GPUs are a shape":         {shapeOf{CPU: 1, Memory: 1, GPUs: 8}, ""},
		"the smallest share is a shape":  {shapeOf{Share: 1}, ""},
		"the largest share is a shape":   {shapeOf{Share: 99}, ""},
		"CPU is not negative":            {shapeOf{CPU: -1}, "CPU: must not be negative, is -1"},
		"memory is not negative":         {shapeOf{Memory: -2}, "memory: must not be negative, is -2"},
		"GPUs are not negative":          {shapeOf{GPUs: -3}, "GPUs: must not be negative, is -3"},
		"a share is not negative":        {shapeOf{Share: -4}, "share: must be 0 to 99 percent, is -4"},
		"a share is less than a card":    {shapeOf{Share: 100}, "share: must be 0 to 99 percent, is 100"},
		"whole GPUs and a share exclude": {shapeOf{GPUs: 2, Share: 30}, "is 2 and 30 percent"},
		"resources have an order": {
			shapeOf{Others: placement.Amounts{{Resource: "b", Value: 1}, {Resource: "a", Value: 1}}},
			"a: resources must be sorted by name, each once",
		},
		"no amount is 0":                       {shapeOf{Others: placement.Amounts{{Resource: "a"}}}, "a: must be 1 to 9007199254740992, is 0"},
		"the least GPU memory is not negative": {shapeOf{GPUs: 1, GPUMemory: -5}, "GPU memory: must not be negative, is -5"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.shape.Validate()
			if (err == nil) != (test.want == "") {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, want %q in it", err, test.want)
			}
		})
	}
}

func TestShapesAreReadable(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		shape placement.Shape
		want  string
	}{
		"CPU and memory only":     {shapeOf{CPU: 500, Memory: 64}, "0.5 CPU, 64 MiB"},
		"one GPU is singular":     {shapeOf{CPU: 1, Memory: 2, GPUs: 1}, "1 GPU, 0.001 CPU, 2 MiB"},
		"several GPUs":            {shapeOf{GPUs: 8}, "8 GPUs"},
		"a share":                 {shapeOf{Share: 46}, "46% of a GPU"},
		"one model":               {shapeOf{GPUs: 2, Models: []string{"a"}}, "2 GPUs of a"},
		"one of several models":   {shapeOf{GPUs: 2, Models: []string{"a", "b"}}, "2 GPUs of a or b"},
		"the least memory":        {shapeOf{GPUs: 2, GPUMemory: 40000}, "2 GPUs with 40000 MiB or more"},
		"the pool comes last":     {shapeOf{GPUs: 1, Pool: "p"}, "1 GPU, in pool p"},
		"adapters and storage":    {shapeOf{GPUs: 1, Others: amounts(4, 1<<30)}, "1 GPU, 1024 MiB of ephemeral-storage, 4 rdma/hca"},
		"some bytes of storage":   {shapeOf{Others: amounts(0, 5)}, "5 bytes of ephemeral-storage"},
		"a node":                  {shapeOf{GPUs: 1, Nodes: []placement.NodeRule{named("a")}}, "1 GPU, on node a"},
		"some nodes, and not one": {shapeOf{GPUs: 1, Nodes: []placement.NodeRule{hosted("a", "b"), not(named("c"))}}, "1 GPU, on any of 2 nodes, not on node c"},
		"models without GPUs":     {shapeOf{Models: []string{"a", "b"}}, "a Pod slot, on nodes with a or b"},
		"GPU memory without GPU":  {shapeOf{GPUMemory: 3}, "a Pod slot"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.shape.String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestPercentIsTheDemandForGPUs(t *testing.T) {
	t.Parallel()
	for want, shape := range map[int]placement.Shape{0: {CPU: 5}, 800: {GPUs: 8}, 46: {Share: 46}} {
		if got := shape.Percent(); got != want {
			t.Errorf("%s: got %d percent, want %d", &shape, got, want)
		}
	}
}

func TestEqualShapesAreOneRequest(t *testing.T) {
	t.Parallel()
	c := clusterOf(t)
	base := shapeOf{CPU: 1, Memory: 2, GPUs: 3, Models: []string{"a", "b"}, GPUMemory: 4, Pool: "p"}
	request := c.Request(base)
	for name, models := range map[string][]string{
		"again":            {"a", "b"},
		"in another order": {"b", "a"},
		"named twice":      {"a", "b", "a", "b", "b"},
	} {
		other := base
		other.Models = models
		if got := c.Request(other); got != request {
			t.Errorf("models %s: another request", name)
		}
	}
	for name, change := range map[string]func(*placement.Shape){
		"CPU":          func(s *placement.Shape) { s.CPU = 9 },
		"memory":       func(s *placement.Shape) { s.Memory = 9 },
		"GPUs":         func(s *placement.Shape) { s.GPUs = 9 },
		"share":        func(s *placement.Shape) { s.GPUs, s.Share = 0, 3 },
		"GPU memory":   func(s *placement.Shape) { s.GPUMemory = 9 },
		"pool":         func(s *placement.Shape) { s.Pool = "q" },
		"node":         func(s *placement.Shape) { s.Nodes = []placement.NodeRule{named("a")} },
		"hostname":     func(s *placement.Shape) { s.Nodes = []placement.NodeRule{hosted("a")} },
		"not a node":   func(s *placement.Shape) { s.Nodes = []placement.NodeRule{not(named("a"))} },
		"two nodes":    func(s *placement.Shape) { s.Nodes = []placement.NodeRule{named("a", "b")} },
		"both":         func(s *placement.Shape) { s.Nodes = []placement.NodeRule{named("a"), named("b")} },
		"adapters":     func(s *placement.Shape) { s.Others = amounts(1, 0) },
		"storage":      func(s *placement.Shape) { s.Others = amounts(0, 1) },
		"no pool":      func(s *placement.Shape) { s.Pool = "" },
		"fewer models": func(s *placement.Shape) { s.Models = []string{"a"} },
		"other models": func(s *placement.Shape) { s.Models = []string{"a", "c"} },
		"no models":    func(s *placement.Shape) { s.Models = nil },
		"joint models": func(s *placement.Shape) { s.Models = []string{"ab"} },
		"moved models": func(s *placement.Shape) { s.Models, s.Pool = []string{"a"}, "bp" },
	} {
		other := base
		change(&other)
		if c.Request(other) == request {
			t.Errorf("%s: the same request", name)
		}
	}
}

func TestARequestLeavesTheShapeAsItIs(t *testing.T) {
	t.Parallel()
	c := clusterOf(t)
	models := []string{"b", "a"}
	r := c.Request(shapeOf{GPUs: 1, Models: models})
	if models[0] != "b" {
		t.Errorf("the caller's models were sorted: %v", models)
	}
	models[1] = "x"
	if r.Models[0] != "a" {
		t.Errorf("the request follows the caller's models: %v", r.Models)
	}
}

// hostile returns a shape that no other has: with a selector and a preference of its own.
func hostile(i int) placement.Shape {
	return shapeOf{GPUs: 1, Selector: textSelector(fmt.Sprint("selector", i)), Preference: textPreference(fmt.Sprint("preference", i))}
}

type textSelector string

func (s textSelector) Key() string                    { return string(s) }
func (s textSelector) Admits(string) placement.Reason { return placement.Fits }

type textPreference string

func (p textPreference) Key() string          { return string(p) }
func (p textPreference) Score(string) float64 { return 1 }

func TestShapesThatNobodyAsksForAnyMoreAreForgotten(t *testing.T) {
	t.Parallel()
	c := placement.NewCluster(packing.New(packing.Default()))
	remembered := c.Request(hostile(0))
	sweep := func() { c.SweepRequests(func(r *placement.Request) bool { return r == remembered }) }
	for i := range 1000 {
		c.Request(hostile(i))
	}
	sweep()
	again := c.Request(hostile(1))
	sweep()
	if requests, selectors, preferences := c.Interned(); requests != 2 || selectors != 2 || preferences != 2 {
		t.Errorf("%d requests, %d selectors and %d preferences are kept, want 2 of each", requests, selectors, preferences)
	}
	if c.Request(hostile(0)) != remembered || c.Request(hostile(1)) != again {
		t.Error("what is used, or is to be kept, is another request now")
	}
}

// The caches of nodes go by the numbers of requests: none may be used twice.
func TestAShapeThatComesAfterOneWasForgottenGetsItsOwnAnswer(t *testing.T) {
	t.Parallel()
	c := placement.NewCluster(packing.New(packing.Default()))
	if err := c.SetNode(placement.Node{Name: "n", CPU: 4000, Memory: 1024, Slots: 10}); err != nil {
		t.Fatal(err)
	}
	room := func(cpu int64) int { return c.Root().Room(c.Request(shapeOf{CPU: cpu})) }
	for i, want := range []int{4, 2, 1, 4, 2} {
		if got := room([]int64{1000, 2000, 4000}[i%3]); got != want {
			t.Errorf("question %d: room for %d Pods, want %d", i, got, want)
		}
		c.SweepRequests(func(*placement.Request) bool { return false })
		c.SweepRequests(func(*placement.Request) bool { return false })
	}
}
