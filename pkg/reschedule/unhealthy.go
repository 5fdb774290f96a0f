// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// leaveUnhealthy returns a plan that moves the next task off GPUs that are not healthy: the
// one of the highest priority, then the oldest, for which there is room. nil if there is
// none.
//
// The task's own wishes count: one that never moves, or has moved as often as it may, stays. That
// it was moved lately, or has not run for long, does not keep it on a broken GPU.
func (p *Planner) leaveUnhealthy(report *Report) *v1.MovePlan {
	if !p.Options.Unhealthy {
		return nil
	}
	faults := p.lastingFaults()
	for _, u := range p.unitsOn(faults) {
		plan, message := p.planToLeave(u, faults)
		report.Unhealthy = append(report.Unhealthy, Verdict{Task: refTo(u.Tasks[0].GPUTask), Message: message})
		if plan != nil {
			return plan
		}
	}
	return nil
}

// faults are why GPUs and MIG slices, by UUID, are not healthy.
type faults map[string]string

// lastingFaults returns the faults that have lasted for long enough, on nodes that are ready
// and whose kubelets offer GPUs: others are left to Kubernetes, and to the node agent.
func (p *Planner) lastingFaults() faults {
	found := faults{}
	for _, node := range p.Nodes {
		text := node.Annotations[inventory.Annotation]
		if text == "" || !snapshot.Ready(node) || p.Cards[node.Name].Paused() {
			continue
		}
		listed, err := inventory.Parse(text)
		if err != nil {
			continue // the view has reported it
		}
		for i := range listed.GPUs {
			gpu := &listed.GPUs[i]
			if gpu.Health != inventory.Healthy && gpu.Fault != nil && p.Now.Sub(gpu.Fault.Since) >= p.Options.UnhealthyAfter {
				found.add(gpu, fmt.Sprintf("GPU %d of node %s is unhealthy: %s", gpu.Index, node.Name, gpu.Fault.Reason))
			}
		}
	}
	return found
}

// add adds a GPU, and the MIG slices that it is divided into: their health is that of the GPU.
func (f faults) add(gpu *inventory.GPU, why string) {
	f[gpu.UUID] = why
	for i := range gpu.Slices {
		f[gpu.Slices[i].UUID] = why
	}
}

// fault returns why a Pod is to leave; empty if its GPUs and MIG slices are healthy. Which slices it
// has, only its annotation says.
func (p *Planner) fault(m *clusterview.Member, faults faults) string {
	return cmp.Or(faults.of(p.Place(m.Pod).GPUs), faults.of(snapshot.AssignedSlices(m.Pod)))
}

// of returns why the first GPU or slice of these is not healthy; empty if all are.
func (f faults) of(uuids []string) string {
	for _, uuid := range uuids {
		if why := f[uuid]; why != "" {
			return why
		}
	}
	return ""
}

// unitsOn returns the units of tasks of which a Pod holds one of these GPUs, in the order in
// which they are moved.
func (p *Planner) unitsOn(faults faults) []*clusterview.Unit {
	var units []*clusterview.Unit
	for _, u := range p.Units {
		if len(u.Tasks) > 0 && p.leaves(u, faults) != "" {
			units = append(units, u)
		}
	}
	slices.SortStableFunc(units, func(a, b *clusterview.Unit) int {
		return cmp.Or(
			-cmp.Compare(a.Priority(), b.Priority()),
			a.Tasks[0].CreationTimestamp.Compare(b.Tasks[0].CreationTimestamp.Time),
			cmp.Compare(a.Key, b.Key),
		)
	})
	return units
}

// leaves returns why a unit is to leave its GPUs: the first fault.
func (p *Planner) leaves(u *clusterview.Unit, faults faults) string {
	for _, m := range u.Members {
		if !m.Runs() {
			continue
		}
		if why := p.fault(m, faults); why != "" {
			return why
		}
	}
	return ""
}

// planToLeave returns a plan that moves a unit off GPUs that are not healthy, or why there is
// none.
func (p *Planner) planToLeave(u *clusterview.Unit, faults faults) (*v1.MovePlan, string) {
	if why := p.stays(u); why != "" {
		return nil, why
	}
	places := p.healthyPlaces(u, faults)
	if places == nil {
		return nil, "there is no room elsewhere for all of its Pods"
	}
	ref, why := refTo(u.Tasks[0].GPUTask), p.leaves(u, faults)
	plan := p.finish(&v1.MovePlan{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "leave-unhealthy-" + ref.Name + "-"},
		Spec:       v1.MovePlanSpec{Goal: v1.GoalUnhealthyGPUs, Moves: p.movesTo(u, places, faults)},
	})
	plan.Spec.Reason = fmt.Sprintf("GPUTask %s/%s leaves GPUs: %s; %s", ref.Namespace, ref.Name, why, costText(plan.Spec.Moves))
	return plan, plan.Spec.Reason
}

// stays returns why a unit is not moved now, broken GPUs or not.
func (p *Planner) stays(u *clusterview.Unit) string {
	if why := p.permanentReason(u); why != "" {
		return why
	}
	if limit := p.movesLeft(); len(u.Members) > limit {
		return fmt.Sprintf("it has %s, but only %d may be moved now", plural.Count(len(u.Members), "Pod"), limit)
	}
	if why := cmp.Or(p.overBudget(u), p.disruption(u)); why != "" {
		return why
	}
	for _, plan := range p.proposals {
		if moves(plan, u) {
			return waitsForApproval(plan)
		}
	}
	until := p.Ledger.notBefore(&p.Options, func(plan *v1.MovePlan) bool {
		return plan.Spec.Goal == v1.GoalUnhealthyGPUs && plan.Spec.Moves[0].Task == refTo(u.Tasks[0].GPUTask)
	})
	if p.Now.Before(until) {
		return "the last plan for it was aborted; the next attempt is at " + until.UTC().Format(time.RFC3339)
	}
	return ""
}

// moves reports whether a plan moves a Pod of a unit.
func moves(plan *v1.MovePlan, u *clusterview.Unit) bool {
	return slices.ContainsFunc(plan.Spec.Moves, func(move v1.Move) bool {
		return slices.ContainsFunc(u.Members, func(m *clusterview.Member) bool { return m.Pod.UID == move.PodUID })
	})
}

// healthyPlaces returns a place for each Pod of a unit, by UID; nil if there is no room for
// all. Pods whose GPUs are healthy keep theirs if the others fit beside them.
func (p *Planner) healthyPlaces(u *clusterview.Unit, faults faults) map[string]placement.Place {
	present := map[string]placement.Place{}
	for _, m := range u.Members {
		running, _ := p.Cluster.Running(string(m.Pod.UID))
		if p.fault(m, faults) == "" {
			present[string(m.Pod.UID)] = placement.Place{Node: m.Pod.Spec.NodeName, Use: running.Use}
		}
	}
	if places := p.placesBeside(u, present); places != nil {
		return places
	}
	return p.placesBeside(u, nil)
}

// placesBeside returns places for all Pods of a unit if those in kept stay where they are; nil
// if there are none.
func (p *Planner) placesBeside(u *clusterview.Unit, kept map[string]placement.Place) (places map[string]placement.Place) {
	p.Cluster.Try(func() bool {
		for _, m := range u.Members {
			p.Cluster.Remove(string(m.Pod.UID))
		}
		places = map[string]placement.Place{}
		for uid, place := range kept {
			if p.Cluster.Place(placement.Pod{Name: uid, Node: place.Node, Use: place.Use}) != nil {
				places = nil
				return false
			}
			places[uid] = place
		}
		if !p.planRest(u, places) {
			places = nil
		}
		return false
	})
	return places
}

// planRest adds places for the Pods of a unit that have none yet. It reports whether there
// is room for all of them.
func (p *Planner) planRest(u *clusterview.Unit, places map[string]placement.Place) bool {
	gang, err := p.GangBeside(u, func(m *clusterview.Member) bool { _, has := places[string(m.Pod.UID)]; return has })
	if err != nil {
		return false
	}
	plan, fits, err := p.Cluster.Plan(&gang.Gang)
	if err != nil || !fits {
		return false
	}
	pods, found := gang.Assign(plan)
	for i, pod := range pods {
		places[string(pod.UID)] = found[i]
	}
	return len(places) == len(u.Members)
}

// movesTo returns the moves of a unit's Pods, which move together.
func (p *Planner) movesTo(u *clusterview.Unit, places map[string]placement.Place, faults faults) []v1.Move {
	list := make([]v1.Move, 0, len(u.Members))
	for _, m := range u.Members {
		to := places[string(m.Pod.UID)]
		move := p.moveOf(m, p.MovePlace(to.Node, to.GPUs))
		move.Reason = cmp.Or(p.fault(m, faults), "its gang moves as a whole")
		list = append(list, move)
	}
	slices.SortFunc(list, func(a, b v1.Move) int { return strings.Compare(a.Pod, b.Pod) })
	return list
}

// movesOffUnhealthy reports whether a Pod that a plan moves is on a GPU that is not healthy.
func (p *Planner) movesOffUnhealthy(plan *v1.MovePlan) bool {
	faults := p.lastingFaults()
	return slices.ContainsFunc(plan.Spec.Moves, func(move v1.Move) bool {
		m := p.Member(string(move.PodUID))
		return faults.of(move.From.GPUs) != "" || m != nil && p.fault(m, faults) != ""
	})
}
