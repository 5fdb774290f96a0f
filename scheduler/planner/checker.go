// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// checker asks kube-scheduler's filters about each place of a plan. It is for one attempt.
type checker struct {
	planner *Planner
	node    func(name string) fwk.NodeInfo
	trial   *filters.Trial
	request *gangs.Request
	basis
	// reached are the nodes to which Pods with seats are on their way. What they refuse may
	// end with a seat, without a change of the node.
	reached map[string]bool
	// removed is true if victims are removed: what nodes refuse now says nothing about
	// the cluster as it is.
	removed bool
	// next is the index of each role's next member, and placed the role and node of the
	// members that were placed.
	next   []int
	placed []placedMember
	// remembered is what is remembered of the members of each role, who are of one class.
	remembered []*filters.Remembered
	// refused is what the filters refused.
	refused refusals
}

type placedMember struct {
	role int
	node string
}

var _ placement.Checker = (*checker)(nil)

// basis is what the checkers of one search start from. It is read before the mirror is
// locked.
type basis struct {
	version uint64
	// arriving are Pods with seats that the snapshot does not show.
	arriving []mirror.Holder
	// deadline is when the filters are asked no more.
	deadline time.Time
}

func (p *Planner) basisFor(request *gangs.Request) basis {
	return p.basisUntil(p.searches.deadline(groupOf(request), request.Count(), p.clock.Now()))
}

func (p *Planner) basisUntil(deadline time.Time) basis {
	return basis{version: p.mirror.Version(), arriving: p.mirror.Arriving(), deadline: deadline}
}

// groupOf returns the key of the group whose gang it is.
func groupOf(request *gangs.Request) string { return request.Member(0, 0).Group().Key }

// checkerUnlessTrusted returns a checker for a gang; nil if the scheduling cycle of its
// only Pod checks its place soon enough.
func (p *Planner) checkerUnlessTrusted(request *gangs.Request) *checker {
	if p.trusts(request) {
		return nil
	}
	return p.newChecker(request, p.basisFor(request))
}

// newChecker returns the checker of a gang; nil if there are no filters.
func (p *Planner) newChecker(request *gangs.Request, from basis) *checker {
	runner := p.runnerFor(request)
	if runner == nil {
		return nil
	}
	node := p.nodeOf
	c := &checker{
		planner: p, request: request, node: node, basis: from, reached: map[string]bool{},
		next: make([]int, len(request.Roles)), remembered: make([]*filters.Remembered, len(request.Roles)), refused: refusals{byNode: map[string]*filters.Refusal{}},
		trial: filters.NewTrial(context.Background(), runner, node),
	}
	if p.counter != nil {
		c.trial.HasAllocation = p.counter.HasAllocation
	}
	for _, seated := range from.arriving {
		c.reached[seated.Node] = true
		if err := c.trial.Add(seated.Pod, seated.Node); err != nil {
			p.logger.Error(err, "A Pod that is being placed is not considered")
		}
	}
	return c
}

// nodeOf returns a node of the snapshot; nil if it has no such node.
func (p *Planner) nodeOf(name string) fwk.NodeInfo {
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(name)
	if err != nil {
		return nil
	}
	return info
}

// trusts reports whether the places of a gang need no check before its Pods are scheduled:
// a Pod in no gang, about which nothing suggests that a node might refuse it.
func (p *Planner) trusts(request *gangs.Request) bool {
	return request.Count() == 1 && p.memory.Trusts(p.classOf(request.Member(0, 0)))
}

// runnerFor returns the filters of the gang's profile; nil if there are none, as in tests.
func (p *Planner) runnerFor(request *gangs.Request) filters.Runner {
	return p.runners[request.Member(0, 0).Pod().Spec.SchedulerName]
}

// Place implements placement.Checker.
func (c *checker) Place(role int, node string) placement.Judgement {
	member := c.request.Member(role, c.next[role])
	class := c.planner.classOf(member)
	refusal, generation, known := c.known(role, node)
	if !known {
		if c.refused.exhausted = c.refused.exhausted || c.planner.clock.Now().After(c.deadline); c.refused.exhausted {
			return placement.Exhausted
		}
		if refusal = c.trial.Check(class, member.Pod(), node); refusal == nil {
			return c.accept(role, member.Pod(), node)
		}
		refusal = c.planner.memory.Shared(refusal)
	}
	c.refused.byNode[node] = refusal
	judgement := c.judge(refusal, node)
	if judgement == placement.NeverAccepted && !known && c.lasts(refusal, node) {
		c.planner.memory.Refused(class, node, refusal, generation, c.version)
	}
	return judgement
}

// lasts reports whether a refusal lasts as long as the cluster stays as it is: neither
// victims that are still there nor Pods that are not there yet have to do with it.
func (c *checker) lasts(refusal *filters.Refusal, node string) bool {
	return !c.removed && !c.reached[node] && (refusal.Local() || len(c.reached) == 0)
}

// known returns the refusal that is remembered of a node.
func (c *checker) known(role int, node string) (refusal *filters.Refusal, generation int64, known bool) {
	generation = c.generation(node)
	if c.removed {
		return nil, generation, false
	}
	if c.remembered[role] == nil {
		c.remembered[role] = c.planner.memory.About(c.planner.classOf(c.request.Member(role, 0)))
	}
	refusal = c.remembered[role].Refusal(node, generation, c.version)
	return refusal, generation, refusal != nil
}

func (c *checker) generation(node string) int64 {
	if info := c.node(node); info != nil {
		return info.GetGeneration()
	}
	return 0
}

func (c *checker) accept(role int, pod *corev1.Pod, node string) placement.Judgement {
	if err := c.trial.Add(pod, node); err != nil {
		c.refused.byNode[node] = &filters.Refusal{Reason: err.Error(), Failed: true}
		return placement.NeverAccepted
	}
	c.next[role]++
	c.placed = append(c.placed, placedMember{role, node})
	return placement.Accepted
}

// judge says how long a refusal lasts.
func (c *checker) judge(refusal *filters.Refusal, node string) placement.Judgement {
	switch {
	case refusal.MayEnd():
		return placement.RefusedForNow
	case len(c.placed) == 0:
		return placement.NeverAccepted
	case refusal.Local() && !slices.ContainsFunc(c.placed, func(m placedMember) bool { return m.node == node }):
		return placement.NeverAccepted
	default:
		return placement.Refused
	}
}

// Undo implements placement.Checker.
func (c *checker) Undo() {
	last := len(c.placed) - 1
	c.next[c.placed[last].role]--
	c.placed = c.placed[:last]
	if err := c.trial.Undo(); err != nil {
		c.planner.logger.Error(err, "A trial differs from the snapshot")
	}
}

// outcome returns what the filters refused; nil without a checker.
func (c *checker) outcome() *refusals {
	if c == nil {
		return nil
	}
	for role := range c.request.Roles {
		member := c.request.Member(role, 0)
		if refusal := c.trial.RefusedEverywhere(c.planner.classOf(member), member.Pod()); refusal != nil && refusal.Final {
			c.refused.everywhere = refusal
		}
	}
	return &c.refused
}
