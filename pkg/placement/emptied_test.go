// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Whatever happens to the nodes, the emptied cluster answers as one that is made anew.
func TestTheEmptiedClusterFollowsTheNodes(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	c := racks(t, [][]int{{8, 3}, {0, 5}})
	for step := range 300 {
		name := fmt.Sprintf("node-%d", dice.IntN(12))
		switch dice.IntN(4) {
		case 0:
			c.RemoveNode(name)
		case 1, 2:
			node := Node{Name: name, CPU: 1000 * int64(1+dice.IntN(8)), Memory: 1 << 20, Slots: 100, Domains: []string{fmt.Sprint("leaf-", dice.IntN(3))}}
			for range dice.IntN(9) {
				node.GPUs = append(node.GPUs, GPU{Memory: 80000})
			}
			if err := c.SetNode(node); err != nil {
				t.Fatal(err)
			}
		default:
			if c.nodes[name] != nil {
				pod := Pod{Name: fmt.Sprint("pod-", step), Node: name, Use: Use{CPU: 1000, GPUs: []int{0}, Percent: 50}}
				if err := c.Place(pod); err != nil {
					t.Fatal(err)
				}
			}
		}
		anew := NewCluster(firstFit{})
		for _, n := range c.nodes {
			if err := anew.SetNode(n.Node); err != nil {
				t.Fatal(err)
			}
		}
		gang := &Gang{Level: 1, Required: dice.IntN(2) == 0, Roles: []Role{{Shape: Shape{CPU: 1000, GPUs: dice.IntN(9)}, Min: 1 + dice.IntN(8), Max: 8}}}
		_, want, err := anew.Plan(gang)
		if err != nil {
			t.Fatal(err)
		}
		if _, fits, err := c.emptied().Plan(gang); err != nil || fits != want {
			t.Fatalf("step %d: the gang fits into the emptied cluster: %t, %v, want %t", step, fits, err, want)
		}
		if running := len(c.emptied().pods); running > 0 {
			t.Fatalf("step %d: %d Pods run in the emptied cluster", step, running)
		}
	}
}
