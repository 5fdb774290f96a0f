// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

const (
	// revisePeriod is how often other nodes are looked for that suit a starving gang better
	// than those that it claims.
	revisePeriod = 10 * time.Second
	// maxDiagnoses is how many sets of nodes are checked with the filters for one claim.
	maxDiagnoses = 8
)

// claimIfStarving keeps nodes for a gang that has waited for too long and will fit there.
func (p *Planner) claimIfStarving(s *search) {
	attempt, now, patience := s.attempt, s.begin, config.Seconds(p.args.StarvationSeconds)
	if patience == 0 || attempt.WaitsSince.IsZero() || now.Sub(attempt.WaitsSince) < patience ||
		!p.claims.mayClaim(attempt, now) || p.claims.hasNone(s.keys, now) {
		return
	}
	awaited := p.claims.awaitedBy(attempt.Group.Key, now)
	found, filtered := p.futureRoom(s)
	if found == nil {
		p.claims.foundNone(s.keys.After(filtered), now)
		return
	}
	found.leastInUse = p.mirror.InUse(found.awaited)
	if awaited != nil && found.leastInUse >= p.mirror.InUse(awaited) {
		return // the nodes that it has are as good
	}
	p.logger.Info("A gang has waited for too long; nodes are kept for it", "gang", attempt.Group.Key, "nodes", len(found.nodes))
	found.starving, found.until = true, now.Add(config.Seconds(p.args.ClaimSeconds))
	p.claim(attempt, found, now)
}

// claim keeps nodes for a gang, and has those tried again that others were kept from before.
func (p *Planner) claim(attempt *gangs.Attempt, one *claim, now time.Time) {
	if p.claims.set(attempt, one, now) {
		p.wake()
	}
}

// futureRoom returns the nodes on which a gang will fit when the fewest GPUs have become
// free, and which accept its Pods then; nil if there are none. filtered is true if filters
// have refused nodes.
func (p *Planner) futureRoom(s *search) (found *claim, filtered bool) {
	from, candidate := p.filters.BasisFor(s.request), s.request.Without(nil) // with each node once
	refusing, filtered := s.refused.Nodes(), s.refused.Any()
	for range maxDiagnoses {
		if explanation, err := p.diagnose(s.attempt, candidate); err == nil {
			awaited := awaitedIn(explanation)
			if held := p.heldByClaims(awaited); len(held) > 0 {
				refusing = append(refusing, held...)
			} else if len(awaited) > 0 {
				found, refused := p.roomWithout(s.attempt, candidate, awaited, from)
				if filtered = filtered || refused.Any(); found != nil {
					return found, filtered
				}
				if refused == nil || refused.RanOutOfTime() {
					return nil, filtered
				}
				refusing = append(refusing, refused.Nodes()...)
			}
		}
		next := candidate.Without(refusing)
		if len(next.Except) == len(candidate.Except) {
			return nil, filtered
		}
		candidate = next
	}
	return nil, filtered
}

// heldByClaims returns the nodes on which resource claims hold any of some GPUs: nobody knows
// whether they will ever be free.
func (p *Planner) heldByClaims(awaited map[string][]int) (nodes []string) {
	p.mirror.With(func(*placement.Cluster) {
		for node, cards := range awaited {
			if p.mirror.HeldByClaims(node, cards) {
				nodes = append(nodes, node)
			}
		}
	})
	return nodes
}

// awaitedIn returns the GPUs, by node, that an explanation says would have to be free.
func awaitedIn(explanation *placement.Explanation) map[string][]int {
	if explanation == nil {
		return nil
	}
	index := slices.IndexFunc(explanation.Remedies, func(r placement.Remedy) bool { return r.Kind == placement.FreeGPUs })
	if index < 0 {
		return nil
	}
	return explanation.Remedies[index].Free
}

// roomWithout returns where a gang goes once the Pods on some GPUs have left. If the filters
// don't accept that, it returns what they refused.
func (p *Planner) roomWithout(attempt *gangs.Attempt, request *gangs.Request, awaited map[string][]int, from filters.Basis) (found *claim, refused *filters.Refusals) {
	check := p.filters.CheckerOf(request, from)
	trial := &search{attempt: attempt, check: check}
	leaving := map[types.UID]bool{}
	p.mirror.For(p.finder.requesterOf(attempt), func(cluster *placement.Cluster) {
		holders := p.mirror.Holders()
		cluster.Try(func() bool {
			for node, cards := range awaited {
				for _, name := range p.mirror.On(node, cards) {
					cluster.Remove(name)
					leaving[types.UID(name)] = true
					if holder, held := holders(name); held && check != nil {
						check.RemoveHolder(holder)
					}
				}
			}
			request.NearFirst(func(request *gangs.Request) bool {
				plan, fits, err := trial.plan(cluster, request)
				if err == nil && fits {
					found = &claim{nodes: mirror.RoomOf(plan), leaving: leaving, awaited: awaited}
				}
				return found != nil
			})
			return false
		})
	})
	return found, check.Outcome()
}
