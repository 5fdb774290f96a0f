// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// waiting returns tasks from "a: b c", a waits for b and c.
func waiting(lines ...string) []*v1.GPUTask {
	var tasks []*v1.GPUTask
	for _, line := range lines {
		name, others, _ := strings.Cut(line, ":")
		var dependencies []v1.Dependency
		for other := range strings.FieldsSeq(others) {
			dependencies = append(dependencies, v1.Dependency{Name: other})
		}
		tasks = append(tasks, makeTask(name).dependsOn(dependencies...).GPUTask)
	}
	return tasks
}

func TestCycles(t *testing.T) {
	t.Parallel()
	started := makeTask("c").dependsOn(v1.Dependency{Name: "a"}).condition(v1.ConditionDependenciesMet, metav1.ConditionTrue, reasonDependenciesMet)
	tests := map[string]struct {
		tasks []*v1.GPUTask
		want  map[string]string
	}{
		"a chain has none":             {waiting("a: b", "b: c", "c:"), map[string]string{}},
		"two tasks":                    {waiting("a: b", "b: a"), map[string]string{"a": "a b a", "b": "b a b"}},
		"a task outside of it":         {waiting("a: b", "b: a", "c: a"), map[string]string{"a": "a b a", "b": "b a b"}},
		"two cycles with a task":       {waiting("a: b c", "b: a", "c: a"), map[string]string{"a": "a b a", "b": "b a b", "c": "c a c"}},
		"the shortest is shown":        {waiting("a: b d", "b: c", "c: a", "d: a"), map[string]string{"a": "a d a", "b": "b c a b", "c": "c a b c", "d": "d a d"}},
		"a task that does not exist":   {waiting("a: b", "b: c"), map[string]string{}},
		"a task that has started":      {append(waiting("a: b", "b: c"), started.GPUTask), map[string]string{}},
		"a task that waits for itself": {waiting("a: a"), map[string]string{"a": "a a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			for name, cycle := range Cycles(tc.tasks) {
				got[name] = strings.Join(cycle, " ")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("cycles (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRandomCycles: what is reported is a cycle, and who waits for itself has one.
func TestRandomCycles(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var lines []string
		for i := range 2 + random.IntN(90) {
			others := make([]string, random.IntN(3))
			for j := range others {
				others[j] = fmt.Sprintf("t%d", random.IntN(90))
			}
			lines = append(lines, fmt.Sprintf("t%d: %s", i, strings.Join(others, " ")))
		}
		tasks := waiting(lines...)
		g, cycles := newDependencyGraph(tasks), Cycles(tasks)
		for _, task := range tasks {
			cycle, found := cycles[task.Name]
			if found != g.reaches(task.Name, task.Name) {
				t.Fatalf("seed %d: task %s has the cycle %v", seed, task.Name, cycle)
			}
			for i := range len(cycle) - 1 {
				if !slices.Contains(g.edges[cycle[i]], cycle[i+1]) {
					t.Fatalf("seed %d: %v is no cycle", seed, cycle)
				}
			}
		}
	}
}

// reaches reports whether a task waits for another, directly or not.
func (g *dependencyGraph) reaches(from, to string) bool {
	seen := map[string]bool{}
	var visit func(name string) bool
	visit = func(name string) bool {
		for _, next := range g.edges[name] {
			if _, waits := g.edges[next]; next == to && waits {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if visit(next) {
					return true
				}
			}
		}
		return false
	}
	return visit(from)
}

// TestALongChainTakesNoLongerThanItsLength: a search that goes back through all tasks that wait would
// take minutes.
func TestALongChainTakesNoLongerThanItsLength(t *testing.T) {
	t.Parallel()
	const count = 300_000
	tasks := make([]*v1.GPUTask, count)
	for i := range tasks {
		tasks[i] = makeTask(fmt.Sprintf("t%06d", i)).dependsOn(v1.Dependency{Name: fmt.Sprintf("t%06d", i+1)}).GPUTask
	}
	if cycles := Cycles(tasks); len(cycles) > 0 {
		t.Errorf("%d tasks of a chain are on a cycle", len(cycles))
	}
}

// BenchmarkCycles has 10,000 waiting tasks with 32 dependencies each.
func BenchmarkCycles(b *testing.B) {
	const count, each = 10_000, 32
	var tasks []*v1.GPUTask
	for i := range count {
		var dependencies []v1.Dependency
		for j := range min(i, each) {
			dependencies = append(dependencies, v1.Dependency{Name: fmt.Sprintf("t%d", i-1-j)})
		}
		if i == 0 {
			dependencies = []v1.Dependency{{Name: "absent"}}
		}
		tasks = append(tasks, makeTask(fmt.Sprintf("t%d", i)).dependsOn(dependencies...).GPUTask)
	}
	for b.Loop() {
		Cycles(tasks)
	}
}
