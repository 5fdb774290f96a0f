// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// dryRun checks proposals for a preemption.
type dryRun struct {
	planner *Planner
	search  *search
	// check is that of the last trial.
	check *checker
	// except are the nodes that can't be used: the gang's own, and those that refused it.
	except []string
	// refusing are nodes that refused members, and hopeless those that did so whoever leaves.
	refusing, hopeless map[string]bool
	// basis is that of all checks: together they have the time of one search, which is limit.
	basis basis
	limit time.Duration
	// withoutVictims is true if a proposal counts that has none.
	withoutVictims bool
	// filtered is true once filters have refused a proposal, and late once the time was up before
	// the end of a search.
	filtered, late bool
	// leaving are the Pods that are terminating, or about to. They are taken to be gone when the
	// victims are: what they keep away may come then, be there a need for their room or not.
	leaving []mirror.Holder
}

func (p *Planner) newDryRun(s *search) *dryRun {
	d := &dryRun{
		planner: p, search: s, except: gangs.Union(s.request.Except, nil), basis: p.basisFor(s.request),
		refusing: map[string]bool{}, hopeless: map[string]bool{},
	}
	d.limit = d.basis.deadline.Sub(p.clock.Now())
	if p.runnerFor(s.request) != nil {
		d.leaving = p.leaving()
	}
	return d
}

// leaving returns the Pods of the snapshot that are terminating, or about to.
func (p *Planner) leaving() (list []mirror.Holder) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil // reading the snapshot never fails
	}
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			if pod := info.GetPod(); pod.DeletionTimestamp != nil || p.registry.Terminating(pod.UID) {
				list = append(list, mirror.Holder{Pod: pod, Node: node.Node().Name})
			}
		}
	}
	return list
}

// propose returns Pods to preempt so that the gang fits and the filters accept its places
// as the nodes will be then; nil if it finds none. If those that are leaving anyway suffice, they
// are the victims.
func (d *dryRun) propose(cluster *placement.Cluster, request *gangs.Request, rules placement.PreemptionRules, holders func(string) (mirror.Holder, bool)) *placement.Preemption {
	if awaited := d.awaitLeaving(cluster, request, holders); awaited != nil {
		return awaited
	}
	for range maxProposals {
		gang := request.Gang
		gang.Except = d.except
		found, fits, err := cluster.Preempt(&gang, rules)
		if err != nil {
			return nil
		}
		if !fits {
			break
		}
		if d.check = d.planner.newChecker(request, d.basis); d.check == nil {
			if d.search.questions != nil {
				d.search.questions.victims(cluster, &gang, found)
			}
			return d.withVictims(found)
		}
		if d.accepts(cluster, &gang, found, holders) {
			return d.withVictims(found)
		}
		refused := d.check.outcome()
		d.late = d.late || refused.exhausted
		if !d.exclude(refused) || refused.exhausted {
			break
		}
	}
	if len(d.refusing)+len(d.hopeless) == 0 {
		return nil // it is room that is missing
	}
	return d.clearance(cluster, request, rules)
}

// awaitLeaving returns those that are leaving anyway if the gang fits without them; else nil. The
// search for victims need not find this out: while some that it chose are gone and others are not
// yet, it may come to other ones.
func (d *dryRun) awaitLeaving(cluster *placement.Cluster, request *gangs.Request, holders func(string) (mirror.Holder, bool)) *placement.Preemption {
	if len(d.leaving) == 0 {
		return nil
	}
	gang, found := request.Gang, &placement.Preemption{}
	for _, one := range d.leaving {
		found.Victims = append(found.Victims, string(one.Pod.UID))
	}
	slices.Sort(found.Victims)
	if d.check = d.planner.newChecker(request, d.basis); !d.accepts(cluster, &gang, found, holders) {
		return nil
	}
	return found
}

// withVictims returns a proposal that has any victims. One without says that the gang fits
// as things are, which they don't, as it has just been refused: nobody has to leave for it.
func (d *dryRun) withVictims(found *placement.Preemption) *placement.Preemption {
	if len(found.Victims) == 0 && !d.withoutVictims {
		return nil
	}
	return found
}

// accepts plans the gang without the victims, as the filters accept it, and puts that plan
// into the proposal.
func (d *dryRun) accepts(cluster *placement.Cluster, gang *placement.Gang, found *placement.Preemption, holders func(string) (mirror.Holder, bool)) (accepted bool) {
	check := d.check
	check.removed = len(found.Victims) > 0 || len(d.leaving) > 0
	for _, one := range d.leaving {
		if !slices.Contains(found.Victims, string(one.Pod.UID)) {
			check.remove(one)
		}
	}
	cluster.Try(func() bool {
		for _, name := range found.Victims {
			cluster.Remove(name)
			if victim, known := holders(name); known {
				check.remove(victim)
			}
		}
		checked := *gang
		checked.Checker = check
		plan, fits, err := d.plan(cluster, &checked)
		if accepted = err == nil && fits; accepted {
			found.Plan = plan
		}
		return false
	})
	d.filtered = d.filtered || !accepted && check.outcome().any()
	return accepted
}

// plan plans a gang as if some had left.
func (d *dryRun) plan(cluster *placement.Cluster, gang *placement.Gang) (*placement.Plan, bool, error) {
	if d.search.questions == nil {
		return cluster.Plan(gang)
	}
	return d.search.questions.without(cluster, gang)
}

// exclude excludes the nodes that refused members from further proposals. It reports whether any
// is new.
func (d *dryRun) exclude(refused *refusals) (more bool) {
	for node, refusal := range refused.byNode {
		if refusal.Final {
			d.hopeless[node] = true
		} else {
			d.refusing[node] = true
		}
	}
	before := len(d.except)
	d.except = gangs.Union(d.except, refused.nodes())
	return len(d.except) > before
}

// remove removes a victim from the trial.
func (c *checker) remove(victim mirror.Holder) {
	if err := c.trial.Remove(victim.Pod, victim.Node); err != nil {
		c.planner.logger.Error(err, "A trial differs from the snapshot")
		c.refused.byNode[victim.Node] = &filters.Refusal{Reason: err.Error(), Failed: true}
	}
}
