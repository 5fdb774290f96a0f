// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// TestPreemptionHelpsAndIsFoundIfItDoes compares the choice of victims with a search through
// all sets of Pods that may be preempted, and all assignments that kube-scheduler's filters
// accept without them. Then the victims leave, one after the other, and the gang has to get
// its places.
func TestPreemptionHelpsAndIsFoundIfItDoes(t *testing.T) {
	t.Parallel()
	sum := &preemptionTally{missed: map[string]int{}, violations: map[string]int{}}
	for seed := range uint64(*oracleCases) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { // so that each case is cleaned up
			sum.cases++
			o := newPreemptionOracle(t, seed, sum)
			o.check()
		})
	}
	t.Log(sum)
	if missed := sum.possible - sum.found; missed*20 > sum.possible {
		t.Errorf("%d of %d possible preemptions were missed, want at most one in twenty", missed, sum.possible)
	}
	if sum.possible < *oracleCases/5 {
		t.Errorf("preemption is possible in %d of %d cases: they are too easy or too hard", sum.possible, *oracleCases)
	}
}

// preemptionTally counts the outcomes of many cases.
type preemptionTally struct {
	cases, fits, waits, impossible, possible, found int
	// missed counts the gangs for which victims exist that were not found, by reason.
	missed map[string]int
	// higher and dearer count the victims that are more important than those of the best set,
	// and spared the sets of which a part would have sufficed.
	higher, dearer, spared int
	violations             map[string]int
}

func (c *preemptionTally) String() string {
	return fmt.Sprintf("%d cases: %d fit, %d do once those have left that are leaving, %d are impossible, preemption is possible in %d: found in %d (victims of a higher priority than necessary in %d, costlier ones in %d, some that could stay in %d), missed %v; violations: %v",
		c.cases, c.fits, c.waits, c.impossible, c.possible, c.found, c.higher, c.dearer, c.spared, c.missed, c.violations)
}

// preemptionOracle is a crowded cluster with a gang for which Pods may have to leave.
type preemptionOracle struct {
	*oracle
	sum     *preemptionTally
	dice    *rand.Rand
	all     []*corev1.Pod // that ran at first, without those that are leaving
	leaving []*corev1.Pod
	allowed int // by the budget
	deleted <-chan string
	victims []string // that were chosen first
	log     []string
}

func newPreemptionOracle(t *testing.T, seed uint64, sum *preemptionTally) *preemptionOracle {
	t.Helper()
	dice := rand.New(rand.NewPCG(seed, 17))
	world := crowdedWorld(dice)
	var all, leaving []*corev1.Pod
	for _, p := range world.running {
		if seed%4 == 0 && dice.IntN(4) == 0 {
			leavingNow(p)
			leaving = append(leaving, p)
		} else {
			all = append(all, p)
		}
	}
	o := &preemptionOracle{
		oracle: &oracle{framed: newFramed(t, world.nodes, world.running, world.objects...), gang: world.gang},
		sum:    sum, dice: dice, all: all, leaving: leaving, allowed: dice.IntN(3),
	}
	o.budget(budgetName, int32(o.allowed))
	o.deleted = o.deletions("")
	o.awaitVolumes()
	return o
}

// String describes the case for failures.
func (o *preemptionOracle) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "the budget %s allows %d\n", budgetName, o.allowed)
	for _, node := range o.nodes {
		fmt.Fprintf(&text, "%s in zone %s: %s; taints %v\n", node.Name, node.Labels[zoneLabel], listed(node.Status.Allocatable), node.Spec.Taints)
	}
	for _, p := range slices.Concat(o.all, o.leaving, o.gang) {
		text.WriteString(described(p))
	}
	return text.String() + strings.Join(o.log, "\n")
}

// described is what matters about a Pod, on a line.
func described(p *corev1.Pod) string {
	text := fmt.Sprintf("%s (%s) of priority %d: %s; kind %s, class %s", p.Name, p.Spec.NodeName, schedulingv1.PodPriority(p),
		listed(p.Spec.Containers[0].Resources.Requests), p.Labels[kindLabel], p.Annotations[classAnnotation])
	if gang := p.Labels[v1.LabelPodGroup]; gang != "" {
		text += fmt.Sprintf(", in gang %s (%s)", gang, p.Labels[v1.LabelMinAvailable])
	}
	if p.Spec.SchedulerName != ours {
		text += ", not ours"
	}
	if p.Labels["app"] != "" {
		text += ", of the budget"
	}
	if p.DeletionTimestamp != nil {
		text += ", leaving"
	}
	if len(p.Spec.Tolerations) > 0 {
		text += ", tolerates"
	}
	if len(p.Spec.Containers[0].Ports) > 0 {
		text += ", port"
	}
	if len(p.Spec.Volumes) > 0 {
		text += ", volume " + p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
	}
	if affinity := p.Spec.Affinity; affinity != nil && affinity.PodAntiAffinity != nil {
		one := affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
		text += fmt.Sprintf(", away from %s by %s", one.LabelSelector.MatchLabels[kindLabel], one.TopologyKey)
	}
	if affinity := p.Spec.Affinity; affinity != nil && affinity.PodAffinity != nil {
		one := affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
		text += fmt.Sprintf(", near %s by %s", one.LabelSelector.MatchLabels[kindLabel], one.TopologyKey)
	}
	if spread := p.Spec.TopologySpreadConstraints; len(spread) > 0 {
		text += ", spread by " + spread[0].TopologyKey
	}
	return text + "\n"
}

// listed is what a list has of what is scarce here.
func listed(list corev1.ResourceList) string {
	gpus, cpus, adapters := list[v1.ResourceGPU], list[corev1.ResourceCPU], list[adapter]
	return fmt.Sprintf("%s GPUs, %s CPU, %s adapters", gpus.String(), cpus.String(), adapters.String())
}

// violate reports a broken promise.
func (o *preemptionOracle) violate(what, format string, args ...any) {
	o.t.Helper()
	o.sum.violations[what]++
	o.t.Errorf("%s: %s\n%s", what, fmt.Sprintf(format, args...), o)
}

// check runs a case.
func (o *preemptionOracle) check() {
	if got := o.plan(); got != nil {
		o.sum.fits++
		if why := o.verify(got); why != "" {
			o.violate("the filters refuse a place", "%v: %s", got, why)
		}
		return
	}
	best := o.bestVictims()
	victims, planned := o.proposed()
	switch message := o.preempt(); {
	case len(victims) > 0:
		o.checkVictims(victims, planned, best)
		o.leave(victims)
	case planned != nil: // those that are leaving suffice
		o.sum.waits++
		if best == nil || len(best.victims) > 0 {
			o.violate("it waits in vain for those that are leaving", "%v", planned)
		}
		o.leave(nil)
	case best == nil:
		o.sum.impossible++
	case len(best.victims) == 0:
		o.sum.missed["no victim is necessary"]++
		o.t.Logf("the gang fits: %s", o)
	default:
		why := o.whyMissed()
		o.sum.possible++
		o.sum.missed[why]++
		o.t.Logf("missed, %s: %v would do; the message is %q\n%s", why, namesOf(best.victims), message, o)
	}
}

// proposed returns the victims that the planner would choose, and where the gang would go.
func (o *preemptionOracle) proposed() (victims []*corev1.Pod, planned []assignment) {
	attempt, gang := o.attempt()
	found := o.victimFinder.find(&search{attempt: attempt, request: gang}, nil)
	if found.plan == nil {
		return nil, nil
	}
	members, places := gang.Assign(found.plan)
	for i, m := range members {
		planned = append(planned, assignment{m.Pod().Name, places[i].Node})
	}
	return found.victims, planned
}

func (o *preemptionOracle) attempt() (*gangs.Attempt, *gangs.Request) {
	attempt := o.registry.Attempt(o.gang[0].UID)
	if attempt == nil {
		o.t.Fatal("there is nothing to plan")
	}
	gang, err := o.requestOf(attempt)
	if err != nil {
		o.t.Fatal(err)
	}
	return attempt, gang
}

// preempt is the end of the leader's scheduling cycle. It waits until the victims have been
// deleted, and then what was written into the Pods of the gang has arrived.
func (o *preemptionOracle) preempt() (message string) {
	message = o.Preempt(o.t.Context(), o.gang[0])
	o.log = append(o.log, "preempt: "+message)
	group := o.registry.Member(o.gang[0].UID).Group().Key
	ended := func(context.Context) (bool, error) {
		return !o.evictor.UnderWay(group), nil
	}
	if err := wait.PollUntilContextTimeout(o.t.Context(), time.Millisecond, time.Minute, true, ended); err != nil {
		o.t.Fatal("the victims are not deleted: ", err)
	}
	for i, member := range o.gang {
		if node := o.evictor.Nominated(member); node != "" {
			o.gang[i] = member.DeepCopy()
			nominatedFor(node)(o.gang[i])
			o.podUpdated(member, o.gang[i])
		}
	}
	return message
}

// takeDeleted returns the names of the Pods that were deleted since.
func (o *preemptionOracle) takeDeleted() (names []string) {
	for {
		select {
		case name := <-o.deleted:
			names = append(names, name)
		default:
			slices.Sort(names)
			return names
		}
	}
}

// checkVictims checks the first choice of victims.
func (o *preemptionOracle) checkVictims(victims []*corev1.Pod, planned []assignment, best *victimSet) {
	o.log = append(o.log, fmt.Sprintf("victims %v, for %v", namesOf(victims), planned))
	if deleted := o.takeDeleted(); !slices.Equal(deleted, namesOf(victims)) {
		o.violate("other Pods are deleted than were proposed", "%v", deleted)
	}
	if why := o.forbids(victims); why != "" {
		o.violate("a victim may not be preempted", "%s", why)
	}
	if why := o.after(victims).verify(planned); why != "" {
		o.violate("the filters refuse the gang without the victims", "%s", why)
	}
	switch {
	case best == nil:
		o.violate("victims are named although none help", "%v", namesOf(victims))
		return
	case len(best.victims) == 0:
		o.violate("victims are named although the gang fits", "%v", namesOf(victims))
		return
	}
	o.sum.possible++
	o.sum.found++
	chosen := victimSetOf(victims)
	switch {
	case chosen.highest > best.highest:
		o.sum.higher++
		o.t.Logf("victims of a higher priority than necessary: %v would do\n%s", namesOf(best.victims), o)
	case chosen.compare(best) > 0:
		o.sum.dearer++
	}
	for _, part := range o.subsets(victims) {
		if len(part.victims) < len(victims) && o.helps(part.victims) {
			o.sum.spared++
			o.t.Logf("some could stay: %v would do\n%s", namesOf(part.victims), o)
			return
		}
	}
}

// leave has the victims leave: they are terminating, then gone, one after the other. Nobody
// else may be preempted meanwhile, and the gang starts at the latest when all are gone.
func (o *preemptionOracle) leave(victims []*corev1.Pod) {
	o.victims = namesOf(victims)
	if o.cycle("before anybody sees that they leave") {
		return
	}
	running := slices.Clone(o.running)
	for i, p := range running {
		if slices.Contains(victims, p) {
			running[i] = p.DeepCopy()
			leavingNow(running[i])
			o.podUpdated(p, running[i])
		}
	}
	o.show(running)
	if o.cycle("while all are terminating") {
		return
	}
	order := slices.Concat(o.victims, namesOf(o.leaving))
	o.dice.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, name := range order {
		gone := slices.IndexFunc(o.running, func(p *corev1.Pod) bool { return p.Name == name })
		o.podDeleted(o.running[gone])
		o.show(slices.Delete(slices.Clone(o.running), gone, gone+1))
		if o.cycle(name + " is gone") {
			return
		}
	}
	for range 2 {
		if o.cycle("all are gone") {
			return
		}
	}
	o.violate("the gang does not start without its victims", "%v", order)
}

// cycle is a further scheduling cycle of the leader. It reports whether the gang got its
// places, and checks these. No further Pod may be preempted.
func (o *preemptionOracle) cycle(when string) (started bool) {
	o.clock.Step(time.Second)
	first := o.decide(o.gang[0])
	o.log = append(o.log, fmt.Sprintf("%s: %+v", when, first))
	if len(o.gang) == 1 && first.Node != "" && o.judge(o.gang[0], first.Node, nil) != "" {
		o.Refuse(o.t.Context(), o.gang[0].UID, first.Plan, first.Node)
		o.decide(o.gang[0])
	}
	if got := o.seats(); got != nil {
		if why := o.verify(got); why != "" {
			o.violate("the filters refuse a place afterwards", "%s: %v: %s", when, got, why)
		}
		return true
	}
	o.preempt()
	for _, name := range o.takeDeleted() {
		if !slices.Contains(o.victims, name) {
			o.violate("others are preempted as well", "%s: %s", when, name)
			return true
		}
	}
	return false
}

// without returns the oracle of the cluster without some of the Pods.
func (o *oracle) without(gone []*corev1.Pod) *oracle {
	cluster := *o.framed
	cluster.running = slices.DeleteFunc(slices.Clone(o.running), func(p *corev1.Pod) bool { return slices.Contains(gone, p) })
	return &oracle{framed: &cluster, gang: o.gang}
}

// helps reports whether the filters accept the gang once some Pods have left.
func (o *preemptionOracle) helps(victims []*corev1.Pod) bool {
	rest := o.after(victims)
	return rest.countable() && rest.assignable()
}

// after returns the oracle of the cluster once some Pods have left, and all that are leaving anyway.
func (o *preemptionOracle) after(victims []*corev1.Pod) *oracle {
	return o.without(slices.Concat(victims, o.leaving))
}

// victimSet is Pods that may be preempted together, and how important they are.
type victimSet struct {
	victims []*corev1.Pod
	highest int32
	sum     float64
}

func victimSetOf(victims []*corev1.Pod) *victimSet {
	s := &victimSet{victims: victims, highest: math.MinInt32}
	for _, p := range victims {
		priority := schedulingv1.PodPriority(p)
		s.highest, s.sum = max(s.highest, priority), s.sum+float64(priority)-math.MinInt32+1
	}
	return s
}

func (s *victimSet) compare(other *victimSet) int {
	return cmp.Or(cmp.Compare(s.highest, other.highest), cmp.Compare(s.sum, other.sum))
}

// subsets returns the sets of some Pods that may be preempted, the best first.
func (o *preemptionOracle) subsets(pods []*corev1.Pod) (sets []*victimSet) {
	for bits := range 1 << len(pods) {
		var some []*corev1.Pod
		for i, p := range pods {
			if bits>>i&1 == 1 {
				some = append(some, p)
			}
		}
		if o.forbids(some) == "" {
			sets = append(sets, victimSetOf(some))
		}
	}
	slices.SortStableFunc(sets, (*victimSet).compare)
	return sets
}

// bestVictims tries all sets of Pods, the best first; nil if none help.
func (o *preemptionOracle) bestVictims() *victimSet {
	candidates := o.candidates()
	if !o.after(candidates).countable() {
		return nil
	}
	for _, set := range o.subsets(candidates) {
		if o.helps(set.victims) {
			return set
		}
	}
	return nil
}

func (o *preemptionOracle) candidates() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(o.all), func(p *corev1.Pod) bool { return schedulingv1.PodPriority(p) >= gangPriority })
}

// forbids returns why Pods may not be preempted together; empty if they may.
func (o *preemptionOracle) forbids(victims []*corev1.Pod) string {
	leaving, members, covered := map[string]int{}, map[string]int{}, 0
	for _, p := range o.all {
		members[p.Labels[v1.LabelPodGroup]]++
	}
	for _, p := range victims {
		if priority := schedulingv1.PodPriority(p); priority >= gangPriority {
			return fmt.Sprintf("%s has priority %d", p.Name, priority)
		}
		leaving[p.Labels[v1.LabelPodGroup]]++
		if p.Labels["app"] == budgetName {
			covered++
		}
	}
	if covered > o.allowed {
		return fmt.Sprintf("the budget allows %d, not %d", o.allowed, covered)
	}
	for _, p := range victims {
		name := p.Labels[v1.LabelPodGroup]
		minimum, err := strconv.Atoi(p.Labels[v1.LabelMinAvailable])
		if name == "" || err != nil {
			continue
		}
		if stay := members[name] - leaving[name]; stay > 0 && stay < minimum {
			return fmt.Sprintf("%d Pods of gang %s are left, fewer than %d", stay, name, minimum)
		}
	}
	return ""
}

func namesOf(pods []*corev1.Pod) []string {
	names := make([]string, len(pods))
	for i, p := range pods {
		names[i] = p.Name
	}
	slices.Sort(names)
	return names
}

// countable reports whether there is enough of what is counted for the gang: a necessary
// condition that is quick to check.
func (o *oracle) countable() bool {
	free := map[string]amounts{}
	for _, node := range o.nodes {
		free[node.Name] = amounts{}.plus(node.Status.Allocatable, 1)
	}
	for _, p := range o.running {
		free[p.Spec.NodeName].plus(p.Spec.Containers[0].Resources.Requests, -1)
	}
	return o.countableFrom(free, 0, 0)
}

// countableFrom finds places for the Pods from the given one on. Equal Pods are placed in the
// order of the nodes.
func (o *oracle) countableFrom(free map[string]amounts, pod, start int) bool {
	if pod == len(o.gang) {
		return true
	}
	p := o.gang[pod]
	if pod == 0 || o.gang[pod-1].Annotations[classAnnotation] != p.Annotations[classAnnotation] {
		start = 0
	}
	requests := p.Spec.Containers[0].Resources.Requests
	for i := start; i < len(o.nodes); i++ {
		left := free[o.nodes[i].Name].plus(requests, -1)
		found := !left.negative() && o.countableFrom(free, pod+1, i)
		left.plus(requests, 1)
		if found {
			return true
		}
	}
	return false
}

// amounts are quantities of resources.
type amounts map[corev1.ResourceName]int64

// plus adds a list of quantities, so many times.
func (a amounts) plus(list corev1.ResourceList, times int64) amounts {
	for name, quantity := range list {
		a[name] += times * quantity.MilliValue()
	}
	return a
}

func (a amounts) negative() bool {
	for amount := range maps.Values(a) {
		if amount < 0 {
			return true
		}
	}
	return false
}

// whyMissed says why victims that exist were not found.
func (o *preemptionOracle) whyMissed() string {
	if o.hasRoom(nil) {
		return "there is room, and filters refuse it"
	}
	for _, set := range o.subsets(o.candidates()) {
		if o.hasRoom(set.victims) && o.isMinimal(set.victims) && o.helps(set.victims) {
			return "not found"
		}
	}
	return "more have to leave than for room"
}

// isMinimal reports whether none of the victims could stay if only room counted.
func (o *preemptionOracle) isMinimal(victims []*corev1.Pod) bool {
	for _, part := range o.subsets(victims) {
		if len(part.victims) < len(victims) && o.hasRoom(part.victims) {
			return false
		}
	}
	return true
}

// hasRoom reports whether the engine has room for the gang without some Pods, whatever filters
// say.
func (o *preemptionOracle) hasRoom(gone []*corev1.Pod) (fits bool) {
	attempt, gang := o.attempt()
	o.mirror.For(o.finder.requesterOf(attempt), func(cluster *placement.Cluster) {
		cluster.Try(func() bool {
			for _, p := range slices.Concat(gone, o.leaving) {
				cluster.Remove(string(p.UID))
			}
			_, fits, _ = cluster.Plan(&gang.Gang)
			return false
		})
	})
	return fits
}
