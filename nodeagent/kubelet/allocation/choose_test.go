// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	// uneven has a pair, then a quad, then a device without NVLink.
	uneven := node(t, []int{0, 0, 1, 1, 1, 1, Unknown}, make([]int, 7), nil)
	tests := map[string]struct {
		node    *Topology
		request Request
		want    []string
	}{
		"nothing is easy":                              {pairs(t, 8), Request{Available: all(8)}, ids()},
		"two devices are a pair":                       {pairs(t, 8), Request{Available: all(8, 0), Size: 2}, ids(2, 3)},
		"a single device comes from a broken pair":     {pairs(t, 8), Request{Available: all(8, 5), Size: 1}, ids(4)},
		"three devices break one pair only":            {pairs(t, 8), Request{Available: all(8), Size: 3}, ids(0, 1, 2)},
		"three devices prefer a pair and a broken one": {pairs(t, 8), Request{Available: all(8, 6), Size: 3}, ids(4, 5, 7)},
		"a pair is not split for two singles":          {pairs(t, 8), Request{Available: ids(0, 2, 4, 6, 7), Size: 2}, ids(6, 7)},
		"singles that are left serve":                  {pairs(t, 8), Request{Available: ids(0, 2, 4), Size: 2}, ids(0, 2)},
		"pairs on one NUMA node belong together":       {pairs(t, 8), Request{Available: all(8, 0, 1), Size: 4}, ids(4, 5, 6, 7)},
		"a pair is taken from the NUMA node that is broken": {
			pairs(t, 8), Request{Available: all(8, 6, 7), Size: 2}, ids(4, 5)},
		"behind a switch one NUMA node serves":     {switched(t, 8), Request{Available: all(8, 1), Size: 4}, ids(4, 5, 6, 7)},
		"behind a switch a NUMA node stays whole":  {switched(t, 8), Request{Available: all(8, 6), Size: 1}, ids(4)},
		"without NVLink one NUMA node serves":      {plain(t, 8), Request{Available: all(8, 0), Size: 4}, ids(4, 5, 6, 7)},
		"without NVLink a NUMA node stays whole":   {plain(t, 8), Request{Available: all(8, 7), Size: 2}, ids(4, 5)},
		"the best linked of a mesh are chosen":     {cubeMesh(t), Request{Available: all(8), Size: 2}, ids(0, 3)},
		"four of a mesh are a quad":                {cubeMesh(t), Request{Available: all(8), Size: 4}, ids(0, 1, 2, 3)},
		"a whole pair stays, the quad is broken":   {uneven, Request{Available: all(7, 3, 6), Size: 1}, ids(2)},
		"a device without NVLink goes first":       {uneven, Request{Available: all(7), Size: 1}, ids(6)},
		"a group that fits exactly is not broken":  {uneven, Request{Available: all(7), Size: 4}, ids(2, 3, 4, 5)},
		"a required device brings its pair":        {pairs(t, 8), Request{Available: all(8), Must: ids(5), Size: 2}, ids(4, 5)},
		"required devices are enough":              {pairs(t, 8), Request{Available: all(8), Must: ids(5, 2), Size: 2}, ids(2, 5)},
		"promised devices are avoided":             {pairs(t, 8), Request{Available: all(8), Avoid: ids(0, 1, 2, 3), Size: 2}, ids(4, 5)},
		"a pair is given up for a promised device": {pairs(t, 4), Request{Available: all(4), Avoid: ids(0, 2), Size: 2}, ids(1, 3)},
		"promised devices serve if nothing else does": {
			pairs(t, 4), Request{Available: all(4), Avoid: ids(0, 1, 2), Size: 2}, ids(2, 3)},
		"a pair with a promised device is broken": {pairs(t, 8), Request{Available: all(8), Avoid: ids(7), Size: 1}, ids(6)},
		"a required device is not avoided":        {pairs(t, 8), Request{Available: all(8), Must: ids(7), Avoid: ids(7), Size: 1}, ids(7)},
		"unknown devices are ignored":             {pairs(t, 4), Request{Available: append(all(4), "x"), Avoid: []string{"y"}, Size: 4}, all(4)},
		"a duplicate counts once":                 {pairs(t, 4), Request{Available: append(all(4), all(4)...), Must: ids(1, 1), Size: 2}, ids(0, 1)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := test.node.Choose(test.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("chosen devices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChooseRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		request Request
		want    string
	}{
		"more than there are":                     {Request{Available: all(4), Size: 5}, "5 devices can't be chosen"},
		"less than must be":                       {Request{Available: all(4), Must: ids(1, 2), Size: 1}, "2 must be among them"},
		"a negative number":                       {Request{Available: all(4), Size: -1}, "-1 devices"},
		"a required device that is not available": {Request{Available: ids(0), Must: ids(1), Size: 1}, `"1" must be chosen`},
		"an unknown required device":              {Request{Available: all(4), Must: []string{"x"}, Size: 1}, `"x" must be chosen`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := pairs(t, 4).Choose(test.request); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Choose() = %v, %v, want an error with %q", got, err, test.want)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	two := []Device{{ID: "a"}, {ID: "b"}}
	tests := map[string]struct {
		devices []Device
		links   [][]int
		want    string
	}{
		"a device that is listed twice": {[]Device{{ID: "a"}, {ID: "a"}}, nil, "twice"},
		"too few rows":                  {two, [][]int{{0, 0}}, "1 rows"},
		"too few columns":               {two, [][]int{{0, 0}, {0}}, "1 columns"},
		"a negative number of links":    {two, [][]int{{0, -1}, {-1, 0}}, "negative"},
		"a link to itself":              {two, [][]int{{1, 0}, {0, 0}}, "itself"},
		"links that go one way only":    {two, [][]int{{0, 1}, {0, 0}}, "not symmetric"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := New(test.devices, test.links); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("New() = %v, want an error with %q", err, test.want)
			}
		})
	}
}

// TestChooseIsOptimal compares the choice with that of an oracle that looks at
// every set, on random nodes of all kinds.
func TestChooseIsOptimal(t *testing.T) {
	t.Parallel()
	const rounds = 3000
	random := rand.New(rand.NewPCG(42, 7))
	for round := range rounds {
		topology, kind := randomNode(t, random)
		o := randomOracle(random, topology)
		size := len(o.must) + random.IntN(len(o.available)-len(o.must)+1)
		request := Request{Size: size}
		for place := range topology.devices {
			id := topology.devices[place].ID
			if o.available[place] {
				request.Available = append(request.Available, id)
			}
			if o.must[place] {
				request.Must = append(request.Must, id)
			}
			if o.avoid[place] {
				request.Avoid = append(request.Avoid, id)
			}
		}
		got, err := topology.Choose(request)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if diff := cmp.Diff(ids(o.best(size)...), got); diff != "" {
			t.Fatalf("round %d, %s, request %+v, devices %+v, links %v (-oracle +got):\n%s",
				round, kind, request, topology.devices, topology.links, diff)
		}
	}
}

func randomNode(t *testing.T, random *rand.Rand) (*Topology, string) {
	t.Helper()
	n := 1 + random.IntN(9)
	some := func(most int) []int { return fill(n, func(int) int { return random.IntN(most+1) - 1 }) }
	switch random.IntN(9) {
	case 0:
		return pairs(t, n), "pairs"
	case 1:
		return switched(t, n), "switched"
	case 2:
		return plain(t, n), "plain"
	case 3:
		return cubeMesh(t), "mesh"
	case 4:
		return node(t, some(3), some(2), matrix(n, func(int, int) int { return random.IntN(3) })), "random"
	case 5:
		return ring(t, n), "ring"
	case 6:
		return hypercube(t, n), "hypercube"
	case 7:
		return scattered(t, n), "scattered"
	default:
		groups := some(3)
		return node(t, groups, some(3), matrix(n, func(a, b int) int {
			if groups[a] == groups[b] && groups[a] != Unknown {
				return 1 + random.IntN(3)
			}
			return 0
		})), "groups"
	}
}

func randomOracle(random *rand.Rand, topology *Topology) *oracle {
	o := &oracle{devices: topology.devices, links: topology.links, available: map[int]bool{}, must: map[int]bool{}, avoid: map[int]bool{}}
	for place := range topology.devices {
		if random.IntN(4) > 0 {
			o.available[place] = true
			if random.IntN(8) == 0 {
				o.must[place] = true
			}
		}
		if random.IntN(4) == 0 {
			o.avoid[place] = true
		}
	}
	return o
}
