// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Checker asks kube-scheduler's filters about each place of a plan. It is for one attempt.
type Checker struct {
	consultant *Consultant
	trial      *Trial
	request    *gangs.Request
	Basis
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
	remembered []*Remembered
	// refused is what the filters refused.
	refused Refusals
}

type placedMember struct {
	role int
	node string
}

var _ placement.Checker = (*Checker)(nil)

// Basis is what the checkers of one search start from. It is read before the mirror is
// locked.
type Basis struct {
	version uint64
	// Arriving are Pods with seats that the snapshot does not show.
	Arriving []snapshot.Holder
	// deadline is when the filters are asked no more.
	deadline time.Time
}

// BasisFor returns the Basis of a search for a gang that begins now.
func (c *Consultant) BasisFor(request *gangs.Request) Basis {
	return c.BasisUntil(c.searches.deadline(groupOf(request), request.Count(), c.Clock.Now()))
}

// BasisUntil returns the Basis of a search that ends at a time.
func (c *Consultant) BasisUntil(deadline time.Time) Basis {
	return Basis{version: c.Mirror.Version(), Arriving: c.Mirror.Arriving(), deadline: deadline}
}

// groupOf returns the key of the group whose gang it is.
func groupOf(request *gangs.Request) string { return request.Member(0, 0).Group().Key }

// CheckerUnlessTrusted returns a Checker for a gang; nil if the scheduling cycle of its
// only Pod checks its place soon enough.
func (c *Consultant) CheckerUnlessTrusted(request *gangs.Request) *Checker {
	if c.trusts(request) {
		return nil
	}
	return c.CheckerOf(request, c.BasisFor(request))
}

// CheckerOf returns the Checker of a gang; nil if there are no filters.
func (c *Consultant) CheckerOf(request *gangs.Request, from Basis) *Checker {
	runner := c.runnerFor(request)
	if runner == nil {
		return nil
	}
	check := &Checker{
		consultant: c, request: request, Basis: from, reached: map[string]bool{},
		next: make([]int, len(request.Roles)), remembered: make([]*Remembered, len(request.Roles)), refused: Refusals{byNode: map[string]*Refusal{}},
		trial: NewTrial(context.Background(), runner, c.nodeOf),
	}
	check.trial.HasAllocation = c.HasAllocation
	for _, arriving := range from.Arriving {
		check.reached[arriving.Node] = true
		if err := check.trial.Add(arriving.Pod, arriving.Node); err != nil {
			c.Logger.Error(err, "A Pod that is being placed is not considered")
		}
	}
	return check
}

// nodeOf returns a node of the snapshot; nil if it has no such node.
func (c *Consultant) nodeOf(name string) fwk.NodeInfo {
	info, err := c.Cluster.SnapshotSharedLister().NodeInfos().Get(name)
	if err != nil {
		return nil
	}
	return info
}

// trusts reports whether the places of a gang need no check before its Pods are scheduled:
// a Pod in no gang, about which nothing suggests that a node might refuse it.
func (c *Consultant) trusts(request *gangs.Request) bool {
	return request.Count() == 1 && c.Memory.Trusts(c.ClassOf(request.Member(0, 0)))
}

// runnerFor returns the filters of the gang's profile; nil if there are none, as in tests.
func (c *Consultant) runnerFor(request *gangs.Request) Runner {
	return c.runners[request.Member(0, 0).Pod().Spec.SchedulerName]
}

// Place implements placement.Checker.
func (c *Checker) Place(role int, node string) placement.Judgement {
	member := c.request.Member(role, c.next[role])
	class := c.consultant.ClassOf(member)
	refusal, generation, known := c.known(role, node)
	if !known {
		if c.refused.exhausted = c.refused.exhausted || c.consultant.Clock.Now().After(c.deadline); c.refused.exhausted {
			return placement.Exhausted
		}
		if refusal = c.trial.Check(class, member.Pod(), node); refusal == nil {
			return c.accept(role, member.Pod(), node)
		}
		refusal = c.consultant.Memory.Shared(refusal)
	}
	c.refused.byNode[node] = refusal
	judgement := c.judge(refusal, node)
	if judgement == placement.NeverAccepted && !known && c.lasts(refusal, node) {
		c.consultant.Memory.Refused(class, node, refusal, generation, c.version)
	}
	return judgement
}

// lasts reports whether a refusal lasts as long as the cluster stays as it is: neither
// victims that are still there nor Pods that are not there yet have to do with it.
func (c *Checker) lasts(refusal *Refusal, node string) bool {
	return !c.removed && !c.reached[node] && (refusal.Local() || len(c.reached) == 0)
}

// known returns the refusal that is remembered of a node.
func (c *Checker) known(role int, node string) (refusal *Refusal, generation int64, known bool) {
	generation = c.generation(node)
	if c.removed {
		return nil, generation, false
	}
	if c.remembered[role] == nil {
		c.remembered[role] = c.consultant.Memory.About(c.consultant.ClassOf(c.request.Member(role, 0)))
	}
	refusal = c.remembered[role].Refusal(node, generation, c.version)
	return refusal, generation, refusal != nil
}

func (c *Checker) generation(node string) int64 {
	if info := c.consultant.nodeOf(node); info != nil {
		return info.GetGeneration()
	}
	return 0
}

func (c *Checker) accept(role int, pod *corev1.Pod, node string) placement.Judgement {
	if err := c.trial.Add(pod, node); err != nil {
		c.refused.byNode[node] = &Refusal{Reason: err.Error(), Failed: true}
		return placement.NeverAccepted
	}
	c.next[role]++
	c.placed = append(c.placed, placedMember{role, node})
	return placement.Accepted
}

// judge says how long a refusal lasts.
func (c *Checker) judge(refusal *Refusal, node string) placement.Judgement {
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
func (c *Checker) Undo() {
	last := len(c.placed) - 1
	c.next[c.placed[last].role]--
	c.placed = c.placed[:last]
	if err := c.trial.Undo(); err != nil {
		c.consultant.Logger.Error(err, "A Pod can't be removed from a trial again")
	}
}

// Outcome returns what the filters refused; nil without a checker.
func (c *Checker) Outcome() *Refusals {
	if c == nil {
		return nil
	}
	for role := range c.request.Roles {
		member := c.request.Member(role, 0)
		if refusal := c.trial.RefusedEverywhere(c.consultant.ClassOf(member), member.Pod()); refusal != nil && refusal.Final {
			c.refused.everywhere = refusal
		}
	}
	return &c.refused
}
