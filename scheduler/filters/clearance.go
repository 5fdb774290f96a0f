// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// maxCleared is how many Pods a clearance considers. If there are more, those come first that are
// on nodes where the engine found room and the filters refused it.
const maxCleared = 1000

// clearance finds victims that the engine does not: Pods that leave enough room but keep the
// gang away by a host port, by anti-affinity or by how Pods are spread, with or without others
// whose room is needed. All Pods that may be preempted leave, and then as many as possible are
// put back, the most important ones first, as long as the filters accept the gang.
type clearance struct {
	*DryRun
	request *gangs.Request
	cluster *placement.Cluster
	rules   placement.PreemptionRules
	// away are the Pods that are not put back so far, by name.
	away map[string]snapshot.Holder
	// plan is where the gang goes without them.
	plan *placement.Plan
	// late is true if the time was up before all were put back that can stay.
	late bool
}

// clearedUnit is Pods that leave together.
type clearedUnit struct {
	pods     []snapshot.Holder
	priority int32
	// whole is true if they are all Pods of a gang, or a Pod in no gang. spare is how many of the
	// gang may leave while the others stay.
	whole bool
	spare int
}

// findClearance returns victims that a clearance finds; nil if there are none. It has the time of one
// search.
func (d *DryRun) findClearance(cluster *placement.Cluster, request *gangs.Request, rules placement.PreemptionRules) *placement.Preemption {
	own := *d
	own.basis.deadline = d.consultant.searches.within(d.consultant.Clock.Now().Add(d.limit))
	c := &clearance{DryRun: &own, request: request, cluster: cluster, rules: rules, away: map[string]snapshot.Holder{}}
	victims := c.victims()
	if d.Late = d.Late || c.late; c.late || victims == nil {
		return nil // or some would leave in vain
	}
	return d.withVictims(victims)
}

// victims returns who has to leave; nil if nothing helps.
func (c *clearance) victims() *placement.Preemption {
	units := c.lowest(c.units())
	if units == nil {
		return nil
	}
	units = c.narrow(units)
	c.putBack(units)
	for _, u := range units {
		c.keepSpare(u)
	}
	return &placement.Preemption{Victims: c.names(), Plan: c.plan}
}

// lowest takes away the units up to the lowest priority that suffices, and returns them; nil if
// none does. They are in the order of their priorities, the highest first.
func (c *clearance) lowest(units []clearedUnit) []clearedUnit {
	var starts []int // of the units that are left if all of higher priorities stay
	for i := range units {
		if i == 0 || units[i].priority < units[i-1].priority {
			starts = append(starts, i)
		}
	}
	low, high := -1, len(starts) // starting at low suffices, at high it doesn't
	for high-low > 1 {
		middle := (low + high) / 2
		if c.fitsWithout(units[starts[middle]:]) {
			low = middle
		} else {
			high = middle
		}
		if c.late {
			return nil
		}
	}
	if low < 0 || !c.fitsWithout(units[starts[low]:]) {
		return nil
	}
	return units[starts[low]:]
}

func (c *clearance) fitsWithout(units []clearedUnit) bool {
	clear(c.away)
	for _, u := range units {
		c.take(u.pods)
	}
	return c.fits()
}

// narrow puts back the units that are not on the nodes of the plan, if the filters accept that,
// and returns the others.
func (c *clearance) narrow(units []clearedUnit) []clearedUnit {
	used := map[string]bool{}
	for i := range c.plan.Members {
		used[c.plan.Members[i].Node] = true
	}
	near, _ := partition(units, func(u clearedUnit) bool {
		return slices.ContainsFunc(u.pods, func(one snapshot.Holder) bool { return used[one.Node] })
	})
	if c.fitsWithout(near) {
		return near
	}
	for _, u := range units {
		c.take(u.pods)
	}
	return units
}

// partition returns the units for which a condition holds, and the others.
func partition(units []clearedUnit, holds func(clearedUnit) bool) (those, others []clearedUnit) {
	for _, u := range units {
		if holds(u) {
			those = append(those, u)
		} else {
			others = append(others, u)
		}
	}
	return those, others
}

// fits reports whether the filters accept the gang now, and keeps the plan if they do.
func (c *clearance) fits() bool {
	if c.late = c.late || c.consultant.Clock.Now().After(c.basis.deadline); c.late {
		return false
	}
	gang, found := c.request.Gang, &placement.Preemption{Victims: c.names()}
	c.check = c.consultant.CheckerOf(c.request, c.basis)
	accepted := c.accepts(c.cluster, &gang, found, func(name string) (snapshot.Holder, bool) {
		holder, known := c.away[name]
		return holder, known
	})
	if accepted {
		c.plan = found.Plan
	}
	c.late = c.late || c.check.refused.exhausted
	return accepted
}

// names returns the names of those that are away, sorted.
func (c *clearance) names() []string { return slices.Sorted(maps.Keys(c.away)) }

func (c *clearance) take(pods []snapshot.Holder) {
	for _, one := range pods {
		c.away[string(one.Pod.UID)] = one
	}
}

func (c *clearance) giveBack(pods []snapshot.Holder) {
	for _, one := range pods {
		delete(c.away, string(one.Pod.UID))
	}
}

// putBack puts back the units that can stay. It tries many at a time: few have to leave.
func (c *clearance) putBack(units []clearedUnit) {
	for _, u := range units {
		c.giveBack(u.pods)
	}
	if c.fits() {
		return
	}
	for _, u := range units {
		c.take(u.pods)
	}
	if half := len(units) / 2; half > 0 {
		c.putBack(units[:half])
		c.putBack(units[half:])
	}
}

// keepSpare puts back members of a gang that leaves, if no more have to leave than it can
// spare.
func (c *clearance) keepSpare(u clearedUnit) {
	if _, leaves := c.away[string(u.pods[0].Pod.UID)]; !leaves || u.spare == 0 || len(u.pods) == 1 {
		return
	}
	before, leave := c.plan, 0
	for i := range u.pods {
		c.giveBack(u.pods[i : i+1])
		if !c.fits() {
			c.take(u.pods[i : i+1])
			leave++
		}
	}
	if leave > u.spare {
		c.take(u.pods)
		c.plan = before
	}
}

// units returns what may leave together as far as budgets allow it, the highest priorities
// first.
func (c *clearance) units() (chosen []clearedUnit) {
	var all []clearedUnit
	for _, members := range c.groups() {
		if u := c.unitOf(members); len(u.pods) > 0 {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, lowestFirst)
	used := map[string]int{}
	for _, u := range all {
		if u.whole && c.charge(used, u) {
			chosen = append(chosen, u)
			continue
		}
		left := u.spare
		for _, single := range c.singlesOf(u) {
			if left > 0 && c.charge(used, single) {
				chosen = append(chosen, single)
				left--
			}
		}
	}
	chosen = c.mostPromising(chosen)
	slices.SortFunc(chosen, func(a, b clearedUnit) int { return lowestFirst(b, a) })
	return chosen
}

func lowestFirst(a, b clearedUnit) int {
	x, y := &a.pods[0], &b.pods[0]
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(x.Node, y.Node), cmp.Compare(x.Pod.UID, y.Pod.UID))
}

// mostPromising returns the first units with at most maxCleared Pods: those on nodes that the
// filters refused for now come first, and those on nodes that they refuse whoever leaves come
// last.
func (c *clearance) mostPromising(units []clearedUnit) []clearedUnit {
	on := func(nodes map[string]bool) func(clearedUnit) bool {
		return func(u clearedUnit) bool {
			return slices.ContainsFunc(u.pods, func(one snapshot.Holder) bool { return nodes[one.Node] })
		}
	}
	first, rest := partition(units, on(c.refusing))
	last, others := partition(rest, on(c.hopeless))
	units = slices.Concat(first, others, last)
	pods := 0
	for i, u := range units {
		if pods += len(u.pods); pods > maxCleared {
			return units[:i]
		}
	}
	return units
}

// groups returns the Pods that hold something, by gang. A Pod in no gang is a group of its own.
func (c *clearance) groups() map[string][]snapshot.Holder {
	groups := map[string][]snapshot.Holder{}
	nodes, err := c.consultant.Cluster.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil // reading the snapshot never fails
	}
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			one := snapshot.Holder{Pod: info.GetPod(), Node: node.Node().Name}
			name := "gang " + c.rules.Group(c.described(one))
			if name == "gang " {
				name = "Pod " + string(one.Pod.UID)
			}
			groups[name] = append(groups[name], one)
		}
	}
	return groups
}

func (c *clearance) described(one snapshot.Holder) *placement.Pod {
	return &placement.Pod{Name: string(one.Pod.UID), Node: one.Node}
}

// unitOf returns the members of a gang that may be preempted.
func (c *clearance) unitOf(members []snapshot.Holder) clearedUnit {
	slices.SortFunc(members, func(a, b snapshot.Holder) int { return cmp.Compare(a.Pod.UID, b.Pod.UID) })
	u := clearedUnit{priority: math.MinInt32, spare: c.rules.Spare(c.rules.Group(c.described(members[0])))}
	for _, one := range members {
		if priority, preemptible := c.rules.Victim(c.described(one)); preemptible {
			u.pods, u.priority = append(u.pods, one), max(u.priority, priority)
		}
	}
	u.whole = len(u.pods) == len(members)
	return u
}

// singlesOf returns a unit's Pods as units of their own, the lowest priorities first.
func (c *clearance) singlesOf(u clearedUnit) []clearedUnit {
	singles := make([]clearedUnit, len(u.pods))
	for i := range u.pods {
		priority, _ := c.rules.Victim(c.described(u.pods[i]))
		singles[i] = clearedUnit{pods: u.pods[i : i+1], priority: priority}
	}
	slices.SortStableFunc(singles, lowestFirst)
	return singles
}

// charge counts a unit against the budgets that cover it, if they allow that.
func (c *clearance) charge(used map[string]int, u clearedUnit) bool {
	var charged []string
	for _, one := range u.pods {
		charged = append(charged, c.rules.Budgets(c.described(one))...)
	}
	for _, name := range charged {
		used[name]++
	}
	for _, name := range charged {
		if used[name] > c.rules.Allowed[name] {
			for _, name := range charged {
				used[name]--
			}
			return false
		}
	}
	return true
}
