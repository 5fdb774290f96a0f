// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"slices"
	"time"

	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// maxProposals is how many proposals are checked with the filters in a cycle.
const maxProposals = 32

// DryRun checks proposals for a preemption.
type DryRun struct {
	consultant *Consultant
	plans      Plans
	// check is that of the last trial.
	check *Checker
	// except are the nodes that can't be used: the gang's own, and those that refused it.
	except []string
	// refusing are nodes that refused members, and hopeless those that did so whoever leaves.
	refusing, hopeless map[string]bool
	// basis is that of all checks: together they have the time of one search, which is limit.
	basis Basis
	limit time.Duration
	// WithoutVictims is true if a proposal counts that has none.
	WithoutVictims bool
	// Filtered is true once filters have refused a proposal, and Late once the time was up before
	// the end of a search.
	Filtered, Late bool
	// leaving are the Pods that are terminating, or about to. They are taken to be gone when the
	// victims are: what they keep away may come then, be there a need for their room or not.
	leaving []snapshot.Holder
}

// Plans plans gangs for a DryRun, and may record that.
type Plans interface {
	// PlanWithout plans a gang as if some Pods had left, which are removed from the cluster.
	PlanWithout(cluster *placement.Cluster, gang *placement.Gang) (plan *placement.Plan, fits bool, err error)
	// Proposed is called with a proposal for a gang that no filter has to check.
	Proposed(cluster *placement.Cluster, gang *placement.Gang, proposal *placement.Preemption)
}

// DryRunFor returns a DryRun for a gang, of which the search begins now.
func (c *Consultant) DryRunFor(request *gangs.Request, plans Plans) *DryRun {
	d := &DryRun{
		consultant: c, plans: plans, except: gangs.Union(request.Except, nil), basis: c.BasisFor(request),
		refusing: map[string]bool{}, hopeless: map[string]bool{},
	}
	d.limit = d.basis.deadline.Sub(c.Clock.Now())
	if c.runnerFor(request) != nil {
		d.leaving = c.leaving()
	}
	return d
}

// leaving returns the Pods of the snapshot that are terminating, or about to.
func (c *Consultant) leaving() (list []snapshot.Holder) {
	nodes, err := c.Cluster.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil // reading the snapshot never fails
	}
	for _, node := range nodes {
		for _, info := range node.GetPods() {
			if pod := info.GetPod(); pod.DeletionTimestamp != nil || c.Terminating(pod.UID) {
				list = append(list, snapshot.Holder{Pod: pod, Node: node.Node().Name})
			}
		}
	}
	return list
}

// Propose returns Pods to preempt so that the gang fits and the filters accept its places
// as the nodes will be then; nil if it finds none. If those that are leaving anyway suffice, they
// are the victims.
func (d *DryRun) Propose(cluster *placement.Cluster, request *gangs.Request, rules placement.PreemptionRules, holders func(string) (snapshot.Holder, bool)) *placement.Preemption {
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
		if d.check = d.consultant.CheckerOf(request, d.basis); d.check == nil {
			d.plans.Proposed(cluster, &gang, found)
			return d.withVictims(found)
		}
		if d.accepts(cluster, &gang, found, holders) {
			return d.withVictims(found)
		}
		refused := d.check.Outcome()
		d.Late = d.Late || refused.exhausted
		if !d.exclude(refused) || refused.exhausted {
			break
		}
	}
	if len(d.refusing)+len(d.hopeless) == 0 {
		return nil // it is room that is missing
	}
	return d.findClearance(cluster, request, rules)
}

// awaitLeaving returns those that are leaving anyway if the gang fits without them; else nil. The
// search for victims need not find this out: while some that it chose are gone and others are not
// yet, it may come to other ones.
func (d *DryRun) awaitLeaving(cluster *placement.Cluster, request *gangs.Request, holders func(string) (snapshot.Holder, bool)) *placement.Preemption {
	if len(d.leaving) == 0 {
		return nil
	}
	gang, found := request.Gang, &placement.Preemption{}
	for _, one := range d.leaving {
		found.Victims = append(found.Victims, string(one.Pod.UID))
	}
	slices.Sort(found.Victims)
	if d.check = d.consultant.CheckerOf(request, d.basis); !d.accepts(cluster, &gang, found, holders) {
		return nil
	}
	return found
}

// withVictims returns a proposal that has any victims. One without says that the gang fits
// as things are, which they don't, as it has just been refused: nobody has to leave for it.
func (d *DryRun) withVictims(found *placement.Preemption) *placement.Preemption {
	if len(found.Victims) == 0 && !d.WithoutVictims {
		return nil
	}
	return found
}

// accepts plans the gang without the victims, as the filters accept it, and puts that plan
// into the proposal.
func (d *DryRun) accepts(cluster *placement.Cluster, gang *placement.Gang, found *placement.Preemption, holders func(string) (snapshot.Holder, bool)) (accepted bool) {
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
		plan, fits, err := d.plans.PlanWithout(cluster, &checked)
		if accepted = err == nil && fits; accepted {
			found.Plan = plan
		}
		return false
	})
	d.Filtered = d.Filtered || !accepted && check.Outcome().Any()
	return accepted
}

// exclude excludes the nodes that refused members from further proposals. It reports whether any
// is new.
func (d *DryRun) exclude(refused *Refusals) (more bool) {
	for node, refusal := range refused.byNode {
		if refusal.Final {
			d.hopeless[node] = true
		} else {
			d.refusing[node] = true
		}
	}
	before := len(d.except)
	d.except = gangs.Union(d.except, refused.Nodes())
	return len(d.except) > before
}

// RemoveHolder removes a Pod that leaves from the trial: what nodes refuse from now on says nothing about the cluster
// as it is.
func (c *Checker) RemoveHolder(leaving snapshot.Holder) {
	c.removed = true
	c.remove(leaving)
}

// remove removes a victim from the trial.
func (c *Checker) remove(victim snapshot.Holder) {
	if err := c.trial.Remove(victim.Pod, victim.Node); err != nil {
		c.consultant.Logger.Error(err, "A victim can't be removed in a trial", "pod", klog.KObj(victim.Pod), "node", victim.Node)
		c.refused.byNode[victim.Node] = &Refusal{Reason: err.Error(), Failed: true}
	}
}
