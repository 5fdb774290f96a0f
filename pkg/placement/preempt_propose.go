// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// proposal is a minimal set of victims that lets the gang fit.
type proposal struct {
	pods []resident
	plan *Plan
	// highest is the cost of the most costly victim, sum that of all: see costOf.
	highest, sum float64
}

func (p *proposal) compare(other *proposal) int {
	return cmp.Or(
		cmp.Compare(p.highest, other.highest), cmp.Compare(p.sum, other.sum),
		cmp.Compare(len(p.pods), len(other.pods)), cmp.Compare(len(p.plan.Domains), len(other.plan.Domains)),
	)
}

func (p *proposal) preemption() *Preemption {
	result := &Preemption{Plan: p.plan}
	for i := range p.pods {
		result.Victims = append(result.Victims, p.pods[i].pod.Name)
	}
	slices.Sort(result.Victims)
	return result
}

// propose tries units as victims, without those that can stay, and keeps the proposal if
// it is the best. narrow is set if most of them can surely stay. ok is false if the gang
// does not fit.
func (p *preemptor) propose(l *pool, units []*unit, narrow bool) (ok bool) {
	p.cluster.lift(residents(units))
	if !p.fits() {
		p.cluster.putBack(residents(units))
		return false
	}
	if narrow {
		units = p.narrow(units)
	}
	units = p.filter(l, units)
	pods := p.keepSpare(l, units)
	defer p.cluster.putBack(pods)
	next := &proposal{pods: pods}
	for i := range pods {
		next.highest = max(next.highest, pods[i].cost)
		next.sum += pods[i].cost
	}
	if p.best != nil && (next.highest > p.best.highest || (next.highest == p.best.highest && next.sum > p.best.sum)) {
		return true
	}
	plan, fits, err := p.cluster.Plan(p.gang)
	if err != nil || !fits {
		return false // can't happen: it was tried
	}
	next.plan = plan
	if p.best == nil || next.compare(p.best) < 0 {
		p.best = next
	}
	return true
}

// fits reports whether the gang fits as the cluster is now. For one role it suffices to
// count the room, as a member takes the room of one member.
func (p *preemptor) fits() bool {
	if len(p.demands) > 1 {
		try := planner{cluster: p.cluster, gang: p.gang}
		defer try.giveBack(0)
		return roomForEach(p.start, p.demands) && try.place(p.start, p.demands)
	}
	if !p.gang.Required {
		return roomForEach(p.start, p.demands)
	}
	return slices.ContainsFunc(p.scopes(), func(scope *Domain) bool { return roomForEach(scope, p.demands) })
}

// narrow puts back the units that are not on the nodes of the gang's plan, if the gang
// still fits then.
func (p *preemptor) narrow(units []*unit) []*unit {
	plan, fits, err := p.cluster.Plan(p.gang)
	if err != nil || !fits {
		return units
	}
	nodes := map[string]bool{}
	for i := range plan.Members {
		nodes[plan.Members[i].Node] = true
	}
	var near, far []*unit
	for _, u := range units {
		if slices.ContainsFunc(u.pods, func(r resident) bool { return nodes[r.pod.Node] }) {
			near = append(near, u)
		} else {
			far = append(far, u)
		}
	}
	p.cluster.putBack(residents(far))
	if p.fits() {
		return near
	}
	p.cluster.lift(residents(far))
	return units
}

// filter puts back the units that can stay, highest priority first, and returns the
// others.
func (p *preemptor) filter(l *pool, units []*unit) (needed []*unit) {
	order := slices.Clone(units)
	slices.SortStableFunc(order, func(a, b *unit) int {
		x, y := &l.info[a.index], &l.info[b.index]
		return cmp.Or(-cmp.Compare(x.priority, y.priority), -cmp.Compare(x.cost, y.cost), cmp.Compare(a.index, b.index))
	})
	for _, u := range order {
		p.cluster.putBack(u.pods)
		if !p.fits() {
			p.cluster.lift(u.pods)
			needed = append(needed, u)
		}
	}
	return needed
}

// keepSpare lets members of a group stay if no more have to leave than the group can
// spare, and returns the Pods to evict.
func (p *preemptor) keepSpare(l *pool, units []*unit) (pods []resident) {
	for _, u := range units {
		victims := u.pods
		if spare := l.info[u.index].spare; spare > 0 && len(u.pods) > 1 {
			victims = p.fewer(u, spare)
		}
		pods = append(pods, victims...)
	}
	return pods
}

// fewer returns the members of a group, which is lifted, that have to be evicted if there
// are at most that many, else all of them. Small ones are put back first, so that few are
// evicted.
func (p *preemptor) fewer(u *unit, most int) (leave []resident) {
	order := slices.Clone(u.pods)
	slices.SortStableFunc(order, func(a, b resident) int {
		return cmp.Or(-cmp.Compare(a.cost, b.cost), cmp.Compare(percentOf(a.pod), percentOf(b.pod)))
	})
	for i := range order {
		member := order[i : i+1]
		p.cluster.putBack(member)
		if p.fits() {
			continue
		}
		p.cluster.lift(member)
		if leave = append(leave, order[i]); len(leave) > most {
			away := slices.Clone(order[:i])
			away = slices.DeleteFunc(away, func(r resident) bool {
				return slices.ContainsFunc(leave, func(other resident) bool { return other.pod == r.pod })
			})
			p.cluster.lift(away)
			return u.pods
		}
	}
	return leave
}
