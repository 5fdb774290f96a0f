// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"slices"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// maxExact is up to how many tasks that wait for each other a cycle is found through each of them.
// Of more, some are told of a cycle that they only wait for.
const maxExact = 64

// Cycles returns a cycle of dependencies for each task that waits for itself, by the task's name:
// the names of the tasks on it, the task first and last. The tasks are all of one namespace. Those
// that have started ignore their dependencies and so are on no cycle. The time is proportional to
// the number of dependencies.
func Cycles(tasks []*v1.GPUTask) map[string][]string {
	g := newDependencyGraph(tasks)
	cycles := map[string][]string{}
	for _, group := range g.stronglyConnected() {
		shared := g.cycleThrough(group[0], group)
		for _, name := range group {
			switch at := slices.Index(shared, name); {
			case at == 0:
				cycles[name] = shared
			case at > 0: // the same cycle, beginning elsewhere
				cycles[name] = append(slices.Concat(shared[at:len(shared)-1], shared[:at]), name)
			case len(group) <= maxExact:
				cycles[name] = g.cycleThrough(name, group)
			default:
				cycles[name] = shared
			}
		}
	}
	return cycles
}

// dependencyGraph has the tasks that wait for others, and the names of those that each waits for.
type dependencyGraph struct {
	names []string // sorted
	edges map[string][]string
}

func newDependencyGraph(tasks []*v1.GPUTask) *dependencyGraph {
	g := &dependencyGraph{edges: make(map[string][]string, len(tasks))}
	for _, task := range tasks {
		if !WaitsForDependencies(task) {
			continue
		}
		g.names = append(g.names, task.Name)
		others := make([]string, 0, len(task.Spec.DependsOn))
		for i := range task.Spec.DependsOn {
			others = append(others, task.Spec.DependsOn[i].Name)
		}
		g.edges[task.Name] = others
	}
	slices.Sort(g.names)
	return g
}

// stronglyConnected returns the groups of tasks of which each waits for each other, each group in
// order. It is Tarjan's algorithm: "Depth-first search and linear graph algorithms" (1972).
func (g *dependencyGraph) stronglyConnected() [][]string {
	var (
		groups       [][]string
		stack        []string
		number, low  = map[string]int{}, map[string]int{}
		onStack      = map[string]bool{}
		visit        func(name string)
		waitsForSelf = func(name string) bool { return slices.Contains(g.edges[name], name) }
	)
	visit = func(name string) {
		number[name] = len(number) + 1
		low[name] = number[name]
		stack, onStack[name] = append(stack, name), true
		for _, next := range g.edges[name] {
			if _, waits := g.edges[next]; !waits {
				continue
			}
			if number[next] == 0 {
				visit(next)
				low[name] = min(low[name], low[next])
			} else if onStack[next] {
				low[name] = min(low[name], number[next])
			}
		}
		if low[name] != number[name] {
			return
		}
		begin := len(stack) - 1 // the group is at the end: a search from the front would take too long for a long chain
		for stack[begin] != name {
			begin--
		}
		group := slices.Clone(stack[begin:])
		stack = stack[:begin]
		for _, member := range group {
			onStack[member] = false
		}
		if len(group) > 1 || waitsForSelf(name) {
			slices.Sort(group)
			groups = append(groups, group)
		}
	}
	for _, name := range g.names {
		if number[name] == 0 {
			visit(name)
		}
	}
	return groups
}

// cycleThrough returns the shortest cycle through a task of a group.
func (g *dependencyGraph) cycleThrough(name string, group []string) []string {
	within := make(map[string]bool, len(group))
	for _, member := range group {
		within[member] = true
	}
	before := map[string]string{} // how each task was reached
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		for _, next := range g.edges[queue[0]] {
			if next == name {
				return pathTo(name, queue[0], before)
			}
			if _, reached := before[next]; within[next] && !reached {
				before[next] = queue[0]
				queue = append(queue, next)
			}
		}
	}
	return nil // can't happen: the group is strongly connected
}

// pathTo returns the cycle that begins with a task and whose last dependency is that of another.
func pathTo(name, last string, before map[string]string) []string {
	cycle := []string{name}
	for at := last; at != name; at = before[at] {
		cycle = append(cycle, at)
	}
	cycle = append(cycle, name)
	slices.Reverse(cycle)
	return cycle
}
