// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/bench/document"
	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// smallCluster returns a made-up cluster of 24 nodes after some churn.
func smallCluster(t *testing.T, seed int64) *site {
	t.Helper()
	s, err := churn(madeUpNodes(24), madeUpPods(), 600, seed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func madeUpNodes(count int) []placement.Node {
	var nodes []placement.Node
	for i := range count {
		node := placement.Node{Name: fmt.Sprintf("node-%02d", i), CPU: 96000, Memory: 768 << 10, Slots: 100, Model: "a"}
		for range 8 {
			node.GPUs = append(node.GPUs, placement.GPU{Memory: 1 << 14, Group: -1, NUMA: -1})
		}
		nodes = append(nodes, node)
	}
	return nodes
}

func madeUpPods() []dataset.Pod {
	var pods []dataset.Pod
	for i, shape := range []placement.Shape{{GPUs: 1}, {GPUs: 1}, {GPUs: 2}, {Share: 50}, {Share: 30}, {GPUs: 4}, {CPU: 4000}} {
		shape.CPU += 4000
		shape.Memory = 8 << 10
		for n := range 10 {
			pods = append(pods, dataset.Pod{Name: fmt.Sprintf("%d-%d", i, n), Shape: shape, Deleted: int64(1000 * (n + 1) * (n + 1)), Milli: 1000})
		}
	}
	return pods
}

// few returns the large tasks of the small cluster.
func few() []kind { return []kind{{1, 1, 8}, {1, 2, 4}} }

func TestOursHelpsMoreTasksWithFewerMovesAndLeavesNobodyBehind(t *testing.T) {
	t.Parallel()
	waited, started, moved, recreated := 0, 0, 0, 0
	for seed := range int64(2) {
		s := smallCluster(t, seed)
		all := map[string]*trial{}
		for _, e := range entrants() {
			by, err := e.make(s.nodes)
			if err != nil {
				t.Fatal(err)
			}
			if all[e.title], err = simulate(s, demand(few()), by, 3600); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, e.title, err)
			}
		}
		r := all["ours"]
		waited += len(r.waited)
		started += len(r.startedLater())
		moved += r.moved
		recreated += all["recreate all"].moved
		if len(r.broken) > 0 || r.unplaced() > 0 {
			t.Errorf("seed %d: %d gangs are broken, %d Pods have no place", seed, len(r.broken), r.unplaced())
		}
		if len(all["nothing"].evicted) > 0 {
			t.Errorf("seed %d: doing nothing evicts %v", seed, all["nothing"].evicted)
		}
	}
	t.Logf("%d waited, %d started, with %d moves; recreating all takes %d", waited, started, moved, recreated)
	if waited < 3 || started < waited*9/10 || moved == 0 || moved >= recreated {
		t.Errorf("%d waited, %d started, with %d moves; recreating all takes %d", waited, started, moved, recreated)
	}
}

func TestARunRepeats(t *testing.T) {
	t.Parallel()
	var texts []string
	for range 2 {
		s := smallCluster(t, 3)
		by, err := newOurs(s.nodes, false)
		if err != nil {
			t.Fatal(err)
		}
		r, err := simulate(s, demand(few()), by, 3600)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, fmt.Sprint(len(s.jobs), r.moved, r.lost, r.evicted, r.regained(), r.now))
	}
	if texts[0] != texts[1] {
		t.Errorf("first\n%s\nthen\n%s", texts[0], texts[1])
	}
}

func TestOursMovesAtLeastTheBound(t *testing.T) {
	t.Parallel()
	least, moved := 0.0, 0.0
	for seed := range int64(4) {
		s := smallCluster(t, seed)
		by, err := newOurs(s.nodes, true)
		if err != nil {
			t.Fatal(err)
		}
		r, err := simulate(s, demand(few()), by, 0)
		if err != nil {
			t.Fatal(err)
		}
		base, err := simulate(s, demand(few()), nothing{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		limit := bound(base.site, r.startedLater(), func(*job) float64 { return 1 })
		if limit > float64(r.moved) {
			t.Errorf("seed %d: ours moves %d, the bound is %g", seed, r.moved, limit)
		}
		least += limit
		moved += float64(r.moved)
	}
	t.Logf("bound %g, ours %g", least, moved)
	if least == 0 || moved == 0 {
		t.Error("nothing was needed")
	}
}

func TestSmallCasesCostAtMostATenthMoreThanTheBest(t *testing.T) {
	t.Parallel()
	s := smallCluster(t, 1)
	for name, fewest := range map[string]bool{"moves": true, "cost": false} {
		c, err := compareSmall(s, 15, fewest, 1)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d cases, %d missed, %d as good as the best, %.1f %%", name, c.cases, c.missed, c.equal, c.percent())
		if c.cases < 15 || c.missed > 0 || c.percent() < 90 {
			t.Errorf("%s: %+v", name, *c)
		}
	}
}

// twoNodes has a node with Pods of 1, 1 and 2 GPUs, and one with 5 GPUs in use.
func twoNodes(t *testing.T) *site {
	t.Helper()
	s, err := newSite(madeUpNodes(2))
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range []struct {
		node int
		gpus []int
	}{{0, []int{0}}, {0, []int{1}}, {0, []int{2, 3}}, {1, []int{0, 1, 2, 3, 4}}} {
		j := newJob(fmt.Sprint("job", i), placement.Shape{CPU: 1000, GPUs: len(one.gpus)}, 1)
		s.jobs[j.name] = j
		use := placement.Use{CPU: 1000, GPUs: one.gpus, Percent: placement.Card}
		if err := s.bind(j, 0, placement.Place{Node: s.nodes[one.node].Name, Use: use}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestTheOracleAndTheBoundFindTheFewestMoves(t *testing.T) {
	t.Parallel()
	for gpus, want := range map[int]struct{ best, bound float64 }{
		4: {0, 0}, // the GPUs are free
		8: {1, 1}, // with one Pod less on the first node, the one of the second moves there
	} {
		s := twoNodes(t)
		large := largeJob(0, 1, gpus)
		one := func(*job) float64 { return 1 }
		got, known := newOracle(s, large, one).least(10)
		if gpus == 8 {
			// Infeasible: 4 GPUs would have to go where 3 are free, or 5 where 4 are.
			if !known || got != 10 {
				t.Errorf("8 GPUs: the oracle says %g, known %v, and there is no way", got, known)
			}
			s.end(s.jobs["job0"])
			got, known = newOracle(s, large, one).least(10)
		}
		if !known || got != want.best {
			t.Errorf("%d GPUs: the oracle says %g, known %v; want %g", gpus, got, known, want.best)
		}
		if got := bound(s, []*job{large}, one); got != want.bound {
			t.Errorf("%d GPUs: the bound is %g, want %g", gpus, got, want.bound)
		}
	}
}

func TestAnErrorNamesTheFlag(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no data":           {nil, "--data"},
		"data not there":    {[]string{"--data", "absent"}, "--data: open absent"},
		"no seeds":          {[]string{"--data", "x", "--seeds", "0"}, "--seeds"},
		"less than no jobs": {[]string{"--data", "x", "--jobs", "-1"}, "--jobs"},
		"an argument":       {[]string{"luck"}, "luck"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := run(tc.args, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestTheReportStandsInTheDocument(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, document.Name)
	if err := os.WriteFile(path, []byte("before\n"+reportPart.Begin()+reportPart.End()), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &bench{
		options: &options{seed: 1, seeds: 1, jobs: 600, small: 2, report: folder, kinds: few()}, out: &strings.Builder{},
		nodes: madeUpNodes(24), pods: madeUpPods(),
	}
	if err := b.measure(); err != nil {
		t.Fatal(err)
	}
	if err := b.write(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{plotFile, "| ours |", "| nothing |", "HighNodeUtilization", "small cases, number of moves"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, plotFile)); err != nil {
		t.Error(err)
	}
}
