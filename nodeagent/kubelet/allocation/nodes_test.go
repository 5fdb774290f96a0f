// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// node builds a topology; the IDs are the indexes.
func node(tb testing.TB, groups, numa []int, links [][]int) *Topology {
	tb.Helper()
	devices := make([]Device, len(groups))
	for place := range devices {
		devices[place] = Device{ID: strconv.Itoa(place), Group: groups[place], NUMANode: numa[place]}
	}
	topology, err := New(devices, links)
	if err != nil {
		tb.Fatal(err)
	}
	return topology
}

// fill returns n numbers from a function of their places.
func fill(n int, number func(place int) int) []int {
	numbers := make([]int, n)
	for place := range numbers {
		numbers[place] = number(place)
	}
	return numbers
}

// matrix returns a symmetric matrix.
func matrix(n int, links func(a, b int) int) [][]int {
	rows := make([][]int, n)
	for a := range rows {
		rows[a] = make([]int, n)
		for b := range a {
			rows[a][b] = links(b, a)
			rows[b][a] = rows[a][b]
		}
	}
	return rows
}

// pairs is a node with NVLink bridges between 0 and 1, 2 and 3, …; half of the
// devices are on each NUMA node.
func pairs(tb testing.TB, n int) *Topology {
	tb.Helper()
	return node(tb, fill(n, func(place int) int { return place / 2 }), halves(n), matrix(n, func(a, b int) int {
		if a/2 == b/2 {
			return 4
		}
		return 0
	}))
}

// switched is a node where everybody reaches everybody through a switch.
func switched(tb testing.TB, n int) *Topology {
	tb.Helper()
	return node(tb, fill(n, func(int) int { return 0 }), halves(n), matrix(n, func(int, int) int { return 18 }))
}

// plain is a node without NVLink.
func plain(tb testing.TB, n int) *Topology {
	tb.Helper()
	return node(tb, fill(n, func(int) int { return Unknown }), halves(n), nil)
}

// cubeMesh is NVIDIA's DGX-1 with V100: two quads, joined at the corners.
func cubeMesh(tb testing.TB) *Topology {
	tb.Helper()
	links := [][]int{
		{0, 1, 1, 2, 2, 0, 0, 0},
		{1, 0, 2, 1, 0, 2, 0, 0},
		{1, 2, 0, 2, 0, 0, 1, 0},
		{2, 1, 2, 0, 0, 0, 0, 1},
		{2, 0, 0, 0, 0, 1, 1, 2},
		{0, 2, 0, 0, 1, 0, 2, 1},
		{0, 0, 1, 0, 1, 2, 0, 2},
		{0, 0, 0, 1, 2, 1, 2, 0},
	}
	return node(tb, make([]int, 8), halves(8), links)
}

// irregular is a node without any symmetry, the hardest case.
func irregular(tb testing.TB, n int) *Topology {
	tb.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	return node(tb, make([]int, n), fill(n, func(int) int { return random.IntN(4) }),
		matrix(n, func(int, int) int { return random.IntN(5) }))
}

// ring is a node where each device is linked to its two neighbours.
func ring(tb testing.TB, n int) *Topology {
	tb.Helper()
	return node(tb, make([]int, n), halves(n), matrix(n, func(a, b int) int {
		if b-a == 1 || b-a == n-1 {
			return 2
		}
		return 0
	}))
}

// torus is a square grid with 16 devices, the rows and columns of which are
// rings.
func torus(tb testing.TB) *Topology {
	tb.Helper()
	return node(tb, make([]int, 16), halves(16), matrix(16, func(a, b int) int {
		neighbours := func(x, y int) bool { return y-x == 1 || x-y == 1 || x+y == 3 && x*y == 0 }
		if a/4 == b/4 && neighbours(a%4, b%4) || a%4 == b%4 && neighbours(a/4, b/4) {
			return 2
		}
		return 0
	}))
}

// hypercube is a node where those devices are linked whose indexes differ in one
// bit.
func hypercube(tb testing.TB, n int) *Topology {
	tb.Helper()
	return node(tb, make([]int, n), halves(n), matrix(n, func(a, b int) int {
		if bits.OnesCount(uint(a^b)) == 1 {
			return 2
		}
		return 0
	}))
}

// scattered is a node without NVLink where each device is on a NUMA node of its
// own.
func scattered(tb testing.TB, n int) *Topology {
	tb.Helper()
	return node(tb, fill(n, func(int) int { return Unknown }), fill(n, func(place int) int { return place }), nil)
}

func halves(n int) []int { return fill(n, func(place int) int { return 2 * place / n }) }

// ids turns places into IDs.
func ids(places ...int) []string {
	list := make([]string, 0, len(places))
	for _, place := range places {
		list = append(list, strconv.Itoa(place))
	}
	return list
}

// all returns the IDs of n devices without some.
func all(n int, without ...int) []string {
	var list []string
	for place := range n {
		if !slices.Contains(without, place) {
			list = append(list, strconv.Itoa(place))
		}
	}
	return list
}
