// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

// Counts is how many gangs are in which state, without Pods in no gang.
type Counts struct {
	Gathering, Waiting, Planned, Running int
}

// state is how far a gang is.
type state int

const (
	// uncounted is the state of Pods in no gang, and of the gangs of other schedulers.
	uncounted state = iota
	gathering
	waiting
	planned
	running
	states
)

func (g *Group) state() state {
	switch {
	case g.Alone || g.own == 0:
		return uncounted
	case g.plan != nil:
		return planned
	case g.bound > 0:
		return running
	case g.complete():
		return waiting
	default:
		return gathering
	}
}

// Count returns how many gangs are in which state. It looks only at those that have
// changed since the last call.
func (r *Registry) Count() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	for g := range r.changed {
		r.tally(g, g.state())
	}
	clear(r.changed)
	return Counts{Gathering: r.counts[gathering], Waiting: r.counts[waiting], Planned: r.counts[planned], Running: r.counts[running]}
}

// tally counts a group in another state.
func (r *Registry) tally(g *Group, now state) {
	r.counts[g.tallied]--
	g.tallied = now
	r.counts[now]++
}

// touch is called whenever something has changed that a gang's state depends on.
func (r *Registry) touch(g *Group) {
	g.counted = false
	r.trackUnbound(g)
	if g.Alone {
		return
	}
	r.changed[g] = struct{}{}
	if g.isMixed() {
		r.mixed[g] = struct{}{}
	}
}

// untrack forgets a group that is gone.
func (r *Registry) untrack(g *Group) {
	r.tally(g, uncounted)
	delete(r.changed, g)
	delete(r.mixed, g)
	delete(r.unbound, g)
}

// trackUnbound updates whether a group is among those of which a member has no node. One that comes to be among them
// has no turn yet.
func (r *Registry) trackUnbound(g *Group) {
	_, known := r.unbound[g]
	switch unbound := g.bound < len(g.members); {
	case unbound && !known:
		r.unbound[g] = struct{}{}
		g.turn = r.turnstile.lastTurn()
	case !unbound && known:
		delete(r.unbound, g)
	}
}
