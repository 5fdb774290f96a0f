// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"math"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// nobodyLeaves is said if no preemption helps.
const nobodyLeaves = "no Pods of a lower priority make room"

// leaving is what is said while victims are on their way out.
const leaving = "Pods are leaving that make room"

// costless is the priority of victims that leave anyway.
const costless = math.MinInt32

// preemptions are the groups whose victims are being deleted.
type preemptions struct {
	mu      sync.Mutex
	running map[string]bool
}

func (p *preemptions) begin(group string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[group] {
		return false
	}
	if p.running == nil {
		p.running = map[string]bool{}
	}
	p.running[group] = true
	return true
}

func (p *preemptions) end(group string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, group)
}

// Preempt makes room for a gang that has just found no place: Pods of a lower
// priority leave, whole gangs of them, if and only if the gang then fits. It
// returns what it does, in words.
func (p *Planner) Preempt(ctx context.Context, pod *corev1.Pod) string {
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever {
		return "it does not preempt others"
	}
	if !p.mayAct() {
		return ""
	}
	attempt := p.registry.Attempt(pod.UID)
	if attempt == nil || attempt.Err != nil {
		return ""
	}
	if attempt.Extra {
		return "nobody has to leave for Pods above the gang's minimum"
	}
	gang, err := p.gangOf(attempt)
	if err != nil {
		return ""
	}
	if p.moving(attempt) {
		return "" // its place is kept for it
	}
	question, now := fmt.Sprintf("preempt\x00%d\x00%s", attempt.Priority, p.questionOf(attempt, gang)), p.clock.Now()
	if known, good := p.texts.recall(question, now); good {
		return known.text
	}
	victims, plan, arriving := p.victims(attempt, gang)
	if plan == nil && arriving {
		p.awaitArrivals.Store(true)
		return "Pods of a lower priority are just being bound"
	}
	if plan == nil {
		p.texts.remember(question, answer{text: nobodyLeaves, at: now})
		return nobodyLeaves
	}
	return p.makeRoom(ctx, pod, attempt, plan, victims)
}

// makeRoom keeps the nodes of a plan for a gang and has the victims leave.
func (p *Planner) makeRoom(ctx context.Context, pod *corev1.Pod, attempt *gangs.Attempt, plan *placement.Plan, victims []*corev1.Pod) string {
	nodes, now := map[string]bool{}, p.clock.Now()
	for i := range plan.Members {
		nodes[plan.Members[i].Node] = true
	}
	p.claims.set(attempt, nodes, now, now.Add(config.Seconds(p.args.ClaimSeconds)), false)
	if len(victims) == 0 {
		return leaving
	}
	if !p.preemptions.begin(attempt.Group.Key) {
		return leaving
	}
	p.registry.Doom(podUIDs(victims), true)
	p.metrics.victims.Add(float64(len(victims)))
	// The scheduling cycle, whose context this is, ends before.
	go p.evictVictims(context.WithoutCancel(ctx), attempt.Group.Key, pod, victims)
	return fmt.Sprintf("%d Pods of a lower priority are preempted", len(victims))
}

// victims returns the Pods that have to leave, without those that leave already,
// and where the gang goes then. The plan is nil if nothing helps; arriving is true if
// Pods that are being bound may help once they are.
func (p *Planner) victims(attempt *gangs.Attempt, gang *roles) (victims []*corev1.Pod, plan *placement.Plan, arriving bool) {
	budgets := p.budgets()
	p.mirror.For(p.askerOf(attempt), func(cluster *placement.Cluster) {
		holders := p.mirror.Holders()
		rules := placement.PreemptionRules{
			Victim: func(pod *placement.Pod) (int32, bool) {
				holder, known := holders(pod.Name)
				if !known {
					return 0, false
				}
				if p.registry.Placing(types.UID(pod.Name)) {
					arriving = arriving || schedulingv1.PodPriority(holder.Pod) < attempt.Priority
					return 0, false
				}
				if p.leaves(holders, pod.Name) {
					return costless, true
				}
				priority := schedulingv1.PodPriority(holder.Pod)
				return priority, priority < attempt.Priority
			},
			Group: func(pod *placement.Pod) string {
				if p.leaves(holders, pod.Name) {
					return "" // it does not take the others of its gang with it
				}
				return p.registry.GangOf(types.UID(pod.Name))
			},
			Spare: p.registry.Spare,
			Budgets: func(pod *placement.Pod) []string {
				if p.leaves(holders, pod.Name) {
					return nil
				}
				return budgets.of(holders, pod.Name)
			},
			Allowed: budgets.allowed,
		}
		gang.tryNear(func() bool {
			preemption, found, err := cluster.Preempt(&gang.Gang, rules)
			if err != nil || !found {
				return false
			}
			plan = preemption.Plan
			for _, name := range preemption.Victims {
				if holder, known := holders(name); known && !p.leaves(holders, name) {
					victims = append(victims, holder.Pod)
				}
			}
			return true
		})
	})
	return victims, plan, arriving
}

// leaves is true for a Pod that is on its way out, or is about to be.
func (p *Planner) leaves(holders func(string) (mirror.Holder, bool), name string) bool {
	holder, known := holders(name)
	return known && holder.Pod.DeletionTimestamp != nil || p.registry.Doomed(types.UID(name))
}

func podUIDs(pods []*corev1.Pod) []types.UID {
	uids := make([]types.UID, len(pods))
	for i, pod := range pods {
		uids[i] = pod.UID
	}
	return uids
}

// budgets are the PodDisruptionBudgets there are.
type budgets struct {
	allowed map[string]int
	byName  map[string][]budget
}

type budget struct {
	name     string
	selector labels.Selector
	// spent are Pods that its controller counts as gone already.
	spent map[string]metav1.Time
}

func (p *Planner) budgets() *budgets {
	b := &budgets{allowed: map[string]int{}, byName: map[string][]budget{}}
	list, err := p.handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		return b // a lister of a cache knows no errors
	}
	for _, pdb := range list {
		b.add(pdb)
	}
	return b
}

func (b *budgets) add(pdb *policyv1.PodDisruptionBudget) {
	selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil || selector.Empty() && pdb.Spec.Selector == nil {
		return
	}
	name := pdb.Namespace + "/" + pdb.Name
	b.allowed[name] = int(pdb.Status.DisruptionsAllowed)
	b.byName[pdb.Namespace] = append(b.byName[pdb.Namespace], budget{name: name, selector: selector, spent: pdb.Status.DisruptedPods})
}

// of returns the budgets that a Pod's disruption counts against.
func (b *budgets) of(holders func(string) (mirror.Holder, bool), name string) []string {
	holder, known := holders(name)
	if !known || holder.Pod.DeletionTimestamp != nil {
		return nil
	}
	var names []string
	for _, one := range b.byName[holder.Pod.Namespace] {
		if _, spent := one.spent[holder.Pod.Name]; !spent && one.selector.Matches(labels.Set(holder.Pod.Labels)) {
			names = append(names, one.name)
		}
	}
	return names
}
