// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// tenant is a Pod of a node on some of its GPUs.
type tenant struct {
	cpu, memory int64
	adapters    int
	gpus        []int
}

func (p tenant) use() placement.Use {
	u := placement.Use{CPU: p.cpu, Memory: p.memory, Others: amounts(p.adapters, 0), GPUs: p.gpus}
	if len(p.gpus) > 0 {
		u.Percent = placement.Card
	}
	return u
}

// endPods removes the Pods that hold the GPUs of a remedy, as happens when they end.
func endPods(c *placement.Cluster, pods map[string]placement.Pod, free map[string][]int) {
	for name, pod := range pods {
		if slices.ContainsFunc(pod.GPUs, func(gpu int) bool { return slices.Contains(free[pod.Node], gpu) }) {
			c.Remove(name)
		}
	}
}

func remedyOf(t *testing.T, c *placement.Cluster, g *placement.Gang, kind placement.RemedyKind) *placement.Remedy {
	t.Helper()
	e, err := c.Explain(g)
	if err != nil {
		t.Fatal(err)
	}
	if e == nil {
		t.Fatal("the gang fits")
	}
	at := slices.IndexFunc(e.Remedies, func(r placement.Remedy) bool { return r.Kind == kind })
	if at < 0 {
		return nil
	}
	return &e.Remedies[at]
}

func TestWhatPodsHoldBesidesTheirGPUsBecomesFreeWithThem(t *testing.T) {
	t.Parallel()
	machine := func(name string) *nodeBuilder { return aNode(name, 8).size(128000, 1<<20, 20).others(8, 0) }
	threeOf := func(one tenant) (list []tenant) {
		for gpu := range 3 {
			one.gpus = []int{gpu}
			list = append(list, one)
		}
		return list
	}
	eight := shapeOf{CPU: 96000, GPUs: 8}
	tests := map[string]struct {
		tenants map[string][]tenant
		nodes   []*nodeBuilder
		members int
		shape   placement.Shape
		want    string // empty if no GPUs help
	}{
		"CPU": {
			map[string][]tenant{"a": threeOf(tenant{cpu: 12000})}, []*nodeBuilder{machine("a")}, 1, eight,
			"with 3 more free GPUs once the Pods on them have left",
		},
		"CPU of several nodes": {
			map[string][]tenant{"a": threeOf(tenant{cpu: 12000}), "b": threeOf(tenant{cpu: 12000}), "c": threeOf(tenant{cpu: 12000})},
			[]*nodeBuilder{machine("a"), machine("b"), machine("c")}, 2, eight,
			"with 6 more free GPUs once the Pods on them have left",
		},
		"memory": {
			map[string][]tenant{"a": threeOf(tenant{memory: 100000})}, []*nodeBuilder{machine("a")}, 1, shapeOf{Memory: 900000, GPUs: 8},
			"with 3 more free GPUs once the Pods on them have left",
		},
		"network adapters": {
			map[string][]tenant{"a": threeOf(tenant{adapters: 1})}, []*nodeBuilder{machine("a")}, 1, shapeOf{Others: amounts(8, 0), GPUs: 8},
			"with 3 more free GPUs once the Pods on them have left",
		},
		"Pod slots": {
			map[string][]tenant{"a": threeOf(tenant{})}, []*nodeBuilder{machine("a").size(128000, 1<<20, 3)}, 1, shapeOf{GPUs: 8},
			"with 3 more free GPUs once the Pods on them have left",
		},
		"nothing is short but GPUs": {
			map[string][]tenant{"a": threeOf(tenant{cpu: 1000})}, []*nodeBuilder{machine("a")}, 1, eight,
			"with 3 more free GPUs",
		},
		"GPUs are free, but their CPU is in use": {
			map[string][]tenant{"a": {{cpu: 20000, gpus: []int{0}}, {cpu: 50000, gpus: []int{1, 2}}, {cpu: 30000, gpus: []int{3}}}},
			[]*nodeBuilder{machine("a")}, 1, shapeOf{CPU: 48000, GPUs: 4},
			"with one more free GPU once the Pods on it have left",
		},
		"another node lacks fewer GPUs": {
			map[string][]tenant{"a": threeOf(tenant{cpu: 12000}), "b": {{cpu: 40000, gpus: []int{0}}}},
			[]*nodeBuilder{machine("a"), machine("b")}, 1, eight,
			"with one more free GPU once the Pods on it have left",
		},
		"a Pod without GPUs holds the CPU": {
			map[string][]tenant{"a": append(threeOf(tenant{cpu: 1000}), tenant{cpu: 60000})}, []*nodeBuilder{machine("a")}, 1, eight, "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, pods := clusterOf(t, test.nodes...), map[string]placement.Pod{}
			for node, tenants := range test.tenants {
				for i, one := range tenants {
					pod := placement.Pod{Name: fmt.Sprint(node, i), Node: node, Use: one.use()}
					pods[pod.Name] = pod
					run(t, c, pod.Name, node, pod.Use)
				}
			}
			gang := &placement.Gang{Roles: []placement.Role{{Shape: test.shape, Min: test.members, Max: test.members}}}
			before := c.StateOf("a")
			remedy := remedyOf(t, c, gang, placement.FreeGPUs)
			if c.StateOf("a") != before {
				t.Error("explaining has changed the cluster")
			}
			if remedy == nil || test.want == "" {
				if remedy != nil || test.want != "" {
					t.Fatalf("the remedy is %+v, want %q", remedy, test.want)
				}
				return
			}
			if remedy.Text != test.want {
				t.Errorf("it would start %q, want %q", remedy.Text, test.want)
			}
			endPods(c, pods, remedy.Free)
			if _, fits, err := c.Plan(gang); err != nil || !fits {
				t.Errorf("without the Pods on the GPUs %v it fits: %t, error %v", remedy.Free, fits, err)
			}
		})
	}
}

// crowded is a random cluster in which Pods hold random amounts of everything.
type crowded struct {
	*placement.Cluster
	pods map[string]placement.Pod
}

func newCrowded(t *testing.T, d dice) *crowded {
	t.Helper()
	c := &crowded{placement.NewCluster(tightest{}), map[string]placement.Pod{}}
	for i := range 1 + d.IntN(4) {
		n := aNode(nodeName(i), 1+d.IntN(6)).size(20000, int64(20000+d.IntN(3)), 3+d.IntN(6)).others(d.IntN(6), 0).in(pick(d, "x", "y"))
		set(t, c.Cluster, n)
		for gpu := range n.GPUs {
			if oneIn(d, 3) {
				continue
			}
			one := tenant{int64(1000 * d.IntN(6)), int64(1000 * d.IntN(6)), d.IntN(2), []int{gpu}}
			if oneIn(d, 4) {
				one.gpus = nil
			}
			pod := placement.Pod{Name: fmt.Sprint(i, "/", gpu), Node: n.Name, Use: one.use()}
			c.pods[pod.Name] = pod
			run(t, c.Cluster, pod.Name, pod.Node, pod.Use)
		}
	}
	return c
}

// gang returns one of a few Pods that are alike.
func (c *crowded) gang(d dice) *placement.Gang {
	members := 1 + d.IntN(3)
	return &placement.Gang{Level: d.IntN(2), Required: oneIn(d, 2), Roles: []placement.Role{{Min: members, Max: members, Shape: placement.Shape{
		CPU: int64(2000 * d.IntN(10)), Memory: int64(2000*d.IntN(10) + d.IntN(2)), Others: amounts(d.IntN(4), 0), GPUs: 1 + d.IntN(4),
	}}}}
}

// fitsAfter reports whether a gang fits when something has happened.
func (c *crowded) fitsAfter(t *testing.T, g *placement.Gang, do func()) (fits bool) {
	t.Helper()
	c.Try(func() bool {
		do()
		var err error
		if _, fits, err = c.Plan(g); err != nil {
			t.Fatal(err)
		}
		return false
	})
	return fits
}

// withoutGPUs removes all Pods that have GPUs.
func (c *crowded) withoutGPUs() {
	for name, pod := range c.pods {
		if len(pod.GPUs) > 0 {
			c.Remove(name)
		}
	}
}

// TestFreeGPUsHelp checks that what an explanation says is true, and that for Pods of one
// role it names GPUs whenever the gang would fit without all Pods that have some.
func TestFreeGPUsHelp(t *testing.T) {
	t.Parallel()
	helped, besides := 0, 0
	for seed := range uint64(1500) {
		d := seeded(seed)
		c := newCrowded(t, d)
		g := c.gang(d)
		if c.fitsAfter(t, g, func() {}) {
			continue
		}
		remedy := remedyOf(t, c.Cluster, g, placement.FreeGPUs)
		if possible := c.fitsAfter(t, g, c.withoutGPUs); possible != (remedy != nil) {
			t.Fatalf("seed %d: it fits without the Pods with GPUs: %t, but the remedy is %+v", seed, possible, remedy)
		}
		if remedy == nil {
			continue
		}
		if !c.fitsAfter(t, g, func() { endPods(c.Cluster, c.pods, remedy.Free) }) {
			t.Fatalf("seed %d: %s: it does not fit", seed, remedy.Text)
		}
		helped++
		if strings.HasSuffix(remedy.Text, "left") {
			besides++
		}
	}
	t.Logf("GPUs help %d gangs, %d of them by what else their Pods hold", helped, besides)
	if helped < 100 || besides < 50 {
		t.Errorf("%d gangs, %d by what else Pods hold: this proves little", helped, besides)
	}
}
