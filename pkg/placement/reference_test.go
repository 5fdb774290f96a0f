// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// reference is a cluster that recomputes everything from its inputs for each query. It
// shares no code with the engine.
type reference struct {
	nodes map[string]placement.Node
	pods  map[string]placement.Pod
}

func newReference() *reference {
	return &reference{nodes: map[string]placement.Node{}, pods: map[string]placement.Pod{}}
}

func (m *reference) clone() *reference {
	return &reference{nodes: maps.Clone(m.nodes), pods: maps.Clone(m.pods)}
}

func (m *reference) removeNode(name string) {
	delete(m.nodes, name)
	maps.DeleteFunc(m.pods, func(_ string, p placement.Pod) bool { return p.Node == name })
}

// names returns those of all nodes, sorted.
func (m *reference) names() []string { return slices.Sorted(maps.Keys(m.nodes)) }

// rest is what is free of a node.
type rest struct {
	node        placement.Node
	cpu, memory int64
	slots       int
	others      map[string]int64
	cards       []int // percent by index; 0 if it is not available
}

func (m *reference) rest(name string) rest {
	n := m.nodes[name]
	left := rest{node: n, cpu: n.CPU, memory: n.Memory, slots: n.Slots, cards: make([]int, len(n.GPUs))}
	for i := range left.cards {
		left.cards[i] = 100
	}
	left.others = map[string]int64{}
	for _, other := range n.Others {
		left.others[other.Resource] = other.Value
	}
	for _, p := range m.pods {
		if p.Node == name {
			left.take(p.Use)
		}
	}
	for i := range left.cards {
		if left.cards[i] < 0 || n.GPUs[i].Broken {
			left.cards[i] = 0
		}
	}
	return left
}

func (l *rest) take(u placement.Use) {
	l.cpu -= u.CPU
	l.memory -= u.Memory
	l.slots--
	for _, other := range u.Others {
		if _, has := l.others[other.Resource]; has {
			l.others[other.Resource] -= other.Value
		}
	}
	for _, card := range u.GPUs {
		if card < len(l.cards) {
			l.cards[card] -= u.Percent
		}
	}
}

func (l *rest) clone() rest {
	other := *l
	other.cards, other.others = slices.Clone(l.cards), maps.Clone(l.others)
	return other
}

// usable returns the cards that a shape could get, by index: whole ones, or those with
// room for its share.
func (l *rest) usable(s *placement.Shape) []int {
	var list []int
	for card, free := range l.cards {
		if l.node.GPUs[card].Memory >= s.GPUMemory && ((s.GPUs > 0 && free == 100) || (s.Share > 0 && free >= s.Share)) {
			list = append(list, card)
		}
	}
	return list
}

func (l *rest) fits(s *placement.Shape) bool {
	switch {
	case l.node.Closed, s.Pool != "" && s.Pool != l.node.Pool, l.slots < 1, l.cpu < s.CPU, l.memory < s.Memory:
		return false
	case slices.ContainsFunc(s.Others, func(other placement.Amount) bool { return l.others[other.Resource] < other.Value }):
		return false
	case slices.ContainsFunc(s.Nodes, func(rule placement.NodeRule) bool {
		name := map[bool]string{false: l.node.Name, true: l.node.Hostname}[rule.Hostnames]
		return slices.Contains(rule.Names, name) == rule.Except
	}):
		return false
	case s.Selector != nil && s.Selector.Admits(l.node.Traits) != placement.Fits:
		return false
	case len(s.Models) > 0 && !slices.Contains(s.Models, l.node.Model):
		return false
	case s.GPUs == 0 && s.Share == 0:
		return true
	}
	return len(l.usable(s)) >= max(1, s.GPUs)
}

// takeFirst takes the first suitable cards.
func (l *rest) takeFirst(s *placement.Shape) {
	u := placement.Use{CPU: s.CPU, Memory: s.Memory, Others: s.Others}
	if s.GPUs > 0 {
		u.GPUs, u.Percent = l.usable(s)[:s.GPUs], 100
	} else if s.Share > 0 {
		u.GPUs, u.Percent = l.usable(s)[:1], s.Share
	}
	l.take(u)
}

// capacity counts how many Pods of a shape fit, one by one.
func (l rest) capacity(s *placement.Shape) int {
	l = l.clone()
	count := 0
	for l.fits(s) {
		l.takeFirst(s)
		count++
	}
	return count
}

// slackOf returns by how much an amount is above a round one. Nodes that differ in no more
// than that offer the same State.
func slackOf(amount int64) int64 {
	round := int64(1)
	for round*512 <= amount {
		round *= 2
	}
	return amount % round
}

// signature is equal for nodes that offer the same, but for slack.
func (l *rest) signature() string {
	groups := map[int][]string{}
	for i, gpu := range l.node.GPUs {
		group := max(gpu.Group, -1)
		groups[group] = append(groups[group], fmt.Sprintf("%d of %d", l.cards[i], gpu.Memory))
	}
	var parts []string
	for group, cards := range groups {
		slices.Sort(cards)
		parts = append(parts, fmt.Sprintf("%v %v", group < 0, cards))
	}
	slices.Sort(parts)
	n := &l.node
	slack := slackOf(n.Memory)
	others, capacity := maps.Clone(l.others), map[string]string{}
	for _, other := range n.Others {
		others[other.Resource] -= slackOf(other.Value)
		capacity[other.Resource] = fmt.Sprint(other.Value-slackOf(other.Value), slackOf(other.Value) > 0)
	}
	return fmt.Sprintf("%d/%d %d/%d %v %d/%d %v/%v %q %q %q %v %s", l.cpu, n.CPU, l.memory-slack, n.Memory-slack, slack > 0, l.slots, n.Slots, others, capacity, n.Model, n.Pool, n.Traits, n.Closed, strings.Join(parts, "; "))
}

// within returns the nodes of a domain, by its name.
func (m *reference) within(domain string) []string {
	var list []string
	for _, name := range m.names() {
		path := strings.Join(m.nodes[name].Domains, "/")
		if domain == "" || path == domain || strings.HasPrefix(path, domain+"/") {
			list = append(list, name)
		}
	}
	return list
}

// domains returns the names of the domains of a level that have nodes, sorted.
func (m *reference) domains(level int) []string {
	names := map[string]bool{}
	for _, n := range m.nodes {
		if len(n.Domains) >= level && n.Domains[level-1] != placement.Unnamed {
			names[strings.Join(n.Domains[:level], "/")] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// room returns how many Pods of a shape fit on some nodes.
func (m *reference) room(nodes []string, s *placement.Shape) int {
	sum := 0
	for _, name := range nodes {
		sum += m.rest(name).capacity(s)
	}
	return sum
}

// check compares all queries of a cluster with the reference.
func (m *reference) check(t *testing.T, c *placement.Cluster, shapes []placement.Shape) {
	t.Helper()
	states, signatures := map[string]*placement.State{}, map[*placement.State]string{}
	for _, name := range m.names() {
		left, s := m.rest(name), c.StateOf(name)
		m.checkState(t, left, s)
		signature := left.signature()
		if known := states[signature]; known != nil && known != s {
			t.Fatalf("node %s: another State than its equals: %s", name, signature)
		}
		if known, found := signatures[s]; found && known != signature {
			t.Fatalf("node %s: one State for %s and %s", name, signature, known)
		}
		states[signature], signatures[s] = s, signature
		for i := range shapes {
			if got, want := c.CapacityOf(name, c.Request(shapes[i])), left.capacity(&shapes[i]); got != want {
				t.Fatalf("node %s: takes %d of %s, want %d: %s", name, got, &shapes[i], want, signature)
			}
		}
	}
	m.checkDomain(t, c, c.Root(), states, shapes)
}

// checkState compares a State with what is free on a node.
func (m *reference) checkState(t *testing.T, left rest, s *placement.State) {
	t.Helper()
	var free []int
	for _, percent := range s.Free() {
		free = append(free, int(percent))
	}
	slices.Sort(free)
	left = left.clone()
	slices.Sort(left.cards)
	sum, whole := 0, 0
	for _, percent := range left.cards {
		sum += percent
		if percent == 100 {
			whole++
		}
	}
	got := fmt.Sprint(s.CPU(), s.Memory(), s.Model(), s.CPUCapacity(), s.Cards(), s.Percent(), s.Whole(), free)
	want := fmt.Sprint(left.cpu, left.memory-slackOf(left.node.Memory), left.node.Model, left.node.CPU, len(left.cards), sum, whole, left.cards)
	if got != want {
		t.Fatalf("node %s: State %s, want %s", left.node.Name, got, want)
	}
}

// checkDomain compares a domain and those below.
func (m *reference) checkDomain(t *testing.T, c *placement.Cluster, d *placement.Domain, states map[string]*placement.State, shapes []placement.Shape) {
	t.Helper()
	want, idle, percent := map[*placement.State]int{}, map[*placement.State]int{}, 0
	for _, name := range m.within(d.Name) {
		left := m.rest(name)
		state := states[left.signature()]
		want[state]++
		if len(left.cards) > 0 && slices.Min(left.cards) == placement.Card {
			idle[state]++
		}
		for _, free := range left.cards {
			percent += free
		}
	}
	if got := counted(t, d.States); !maps.Equal(want, got) {
		t.Fatalf("domain %q: has nodes by State %v, want %v", d.Name, got, want)
	}
	if got := counted(t, d.Idle); !maps.Equal(idle, got) {
		t.Fatalf("domain %q: has idle nodes by State %v, want %v", d.Name, got, idle)
	}
	if got := d.Percent(); got != percent {
		t.Fatalf("domain %q: %d percent are free, want %d", d.Name, got, percent)
	}
	for i := range shapes {
		if got, want := d.Room(c.Request(shapes[i])), m.room(m.within(d.Name), &shapes[i]); got != want {
			t.Fatalf("domain %q: room for %d of %s, want %d", d.Name, got, &shapes[i], want)
		}
	}
	if !slices.IsSortedFunc(d.Children, func(a, b *placement.Domain) int { return cmp.Compare(a.Name, b.Name) }) {
		t.Fatalf("domain %q: its children are in no order", d.Name)
	}
	for _, child := range d.Children {
		if child.Level != d.Level+1 {
			t.Fatalf("domain %q: is of level %d below level %d", child.Name, child.Level, d.Level)
		}
		m.checkDomain(t, c, child, states, shapes)
	}
}

// counted collects what States or Idle pass to their callback.
func counted(t *testing.T, all func(do func(*placement.State, int))) map[*placement.State]int {
	t.Helper()
	got := map[*placement.State]int{}
	all(func(s *placement.State, nodes int) {
		if got[s] != 0 {
			t.Fatal("a State is listed twice")
		}
		got[s] = nodes
	})
	return got
}
