// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/yaml"
)

// oracleCases is how many random clusters are compared: 10,000 for a long run.
var oracleCases = flag.Int("oracle.cases", 200, "how many random clusters to compare with a search through all assignments")

// TestAGangIsPlacedIfKubeSchedulersFiltersAllowIt compares the planner with a search through
// all assignments, in all orders, that kube-scheduler's filters accept: each Pod is judged
// in a snapshot of its own, with the Pods before it on their nodes. The planner may miss one
// assignment in a thousand, and may never choose one that the filters refuse.
func TestAGangIsPlacedIfKubeSchedulersFiltersAllowIt(t *testing.T) {
	t.Parallel()
	compareWithFilters(t, randomWorld)
}

// TestAGangIsPlacedOnOddClustersIfKubeSchedulersFiltersAllowIt does so with nodes of many shapes, and gangs of unlike
// members.
func TestAGangIsPlacedOnOddClustersIfKubeSchedulersFiltersAllowIt(t *testing.T) {
	t.Parallel()
	compareWithFilters(t, oddWorld)
}

func compareWithFilters(t *testing.T, of func(dice *rand.Rand) *world) {
	t.Helper()
	missed, possible := 0, 0
	for seed := range uint64(*oracleCases) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { // so that each case is cleaned up
			o := newOracle(t, seed, of)
			want, got := o.assignable(), o.plan()
			if want {
				possible++
			}
			if want && got == nil {
				missed++
				t.Logf("the planner missed an assignment:\n%s", o)
			}
			if why := o.verify(got); why != "" {
				t.Errorf("the filters refuse %v: %s\n%s", got, why, o)
			}
		})
	}
	t.Logf("%d of %d cases have an assignment; %d were missed", possible, *oracleCases, missed)
	if missed*1000 > *oracleCases {
		t.Errorf("%d of %d were missed, want at most one in a thousand", missed, *oracleCases)
	}
	if possible < *oracleCases/5 || possible > *oracleCases*9/10 {
		t.Errorf("%d of %d cases have an assignment: they are too easy or too hard", possible, *oracleCases)
	}
}

// oracle is a random cluster with a gang.
type oracle struct {
	*framed
	gang []*corev1.Pod
	// placed are the gang's Pods on their nodes, in a search.
	placed []*corev1.Pod
	// together is the label of nodes whose value has to be the same for the whole gang; empty for none.
	together string
}

// assignment is where a Pod goes.
type assignment struct{ pod, node string }

func newOracle(t *testing.T, seed uint64, of func(dice *rand.Rand) *world) *oracle {
	t.Helper()
	world := of(rand.New(rand.NewPCG(seed, 13)))
	o := &oracle{framed: newFramed(t, world.nodes, world.running, world.objects...), gang: world.gang, together: world.together}
	o.awaitVolumes()
	return o
}

// awaitVolumes waits until the plugins' own caches know the volumes: they follow the
// informers in the background.
func (o *oracle) awaitVolumes() {
	o.t.Helper()
	user := pod("user", 1)
	for _, claim := range []string{"x", "y"} {
		user.Spec.Volumes = append(user.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	known := func(ctx context.Context) (bool, error) {
		state := framework.NewCycleState()
		if _, status, _ := o.framework.RunPreFilterPlugins(ctx, state, user); !status.IsSuccess() {
			return false, nil
		}
		return !strings.Contains(o.framework.RunFilterPlugins(ctx, state, user, o.infos[o.names[0]]).Message(), "unavailable due to PVs"), nil
	}
	if err := wait.PollUntilContextTimeout(o.t.Context(), time.Millisecond, time.Minute, true, known); err != nil {
		o.t.Fatal("the volumes are not known: ", err)
	}
}

// String describes the case for failures.
func (o *oracle) String() string {
	var text strings.Builder
	text.WriteString(o.framed.String())
	for _, pod := range o.gang {
		spec, err := yaml.Marshal(pod)
		fmt.Fprintf(&text, "%s\n%v\n", spec, err)
	}
	return text.String()
}

// assignable reports whether the filters accept the whole gang in any order on any nodes.
func (o *oracle) assignable() bool {
	return o.search(map[string]bool{})
}

func (o *oracle) search(failed map[string]bool) bool {
	if len(o.placed) == len(o.gang) {
		return true
	}
	key := o.key()
	if failed[key] {
		return false
	}
	done := map[string]bool{}
	for _, placed := range o.placed {
		done[placed.Name] = true
	}
	tried := map[string]bool{}
	for _, pod := range o.gang {
		if class := pod.Annotations[classAnnotation]; done[pod.Name] || tried[class] {
			continue // equal Pods are interchangeable
		} else {
			tried[class] = true
		}
		refused := o.refusals(pod, o.placed)
		for _, node := range o.nodes {
			if refused[node.Name] != "" || !o.isTogether(node.Name) {
				continue
			}
			o.placed = append(o.placed, at(pod, node.Name))
			found := o.search(failed)
			o.placed = o.placed[:len(o.placed)-1]
			if found {
				return true
			}
		}
	}
	failed[key] = true
	return false
}

// isTogether reports whether a node is in the domain of the gang's Pods that have been placed, and in one at all.
func (o *oracle) isTogether(node string) bool {
	if o.together == "" {
		return true
	}
	domain := o.domainOf(node)
	return domain != "" && (len(o.placed) == 0 || domain == o.domainOf(o.placed[0].Spec.NodeName))
}

// domainOf returns where a node is: leaves of one name in different zones are not the same. It is empty if the node's
// label is missing.
func (o *oracle) domainOf(node string) string {
	labels := o.infos[node].Node().Labels
	if labels[o.together] == "" {
		return ""
	}
	var path strings.Builder
	for _, level := range o.args.Levels() {
		path.WriteString(labels[level.NodeLabel] + "/")
		if level.NodeLabel == o.together {
			break
		}
	}
	return path.String()
}

// key identifies which classes are on which nodes.
func (o *oracle) key() string {
	counts := map[string]int{}
	for _, pod := range o.placed {
		counts[pod.Annotations[classAnnotation]+" "+pod.Spec.NodeName]++
	}
	return fmt.Sprint(counts)
}

// plan lets the planner place the gang; nil if it finds no place.
func (o *oracle) plan() []assignment {
	o.comes(o.gang...)
	first := o.decide(o.gang[0])
	// A Pod in no gang may be placed without asking the filters, if nothing suggests that
	// they might refuse it. They do in its cycle then, and are asked from then on.
	if len(o.gang) == 1 && first.Node != "" && o.judge(o.gang[0], first.Node, nil) != "" {
		o.Refuse(o.t.Context(), o.gang[0].UID, first.Plan, first.Node)
		o.decide(o.gang[0])
	}
	return o.seats()
}

// seats returns where the Pods of the gang have seats, in the order of the queue.
func (o *oracle) seats() []assignment {
	order := map[int]assignment{}
	for _, pod := range o.gang {
		if seat, seated := o.registry.SeatOf(pod.UID); seated {
			order[o.RankOf(pod, beginning).Index] = assignment{pod.Name, seat.Node}
		}
	}
	var list []assignment
	for _, index := range slices.Sorted(maps.Keys(order)) {
		list = append(list, order[index])
	}
	return list
}

// verify returns why the filters refuse an assignment, in its order; empty if they don't.
func (o *oracle) verify(list []assignment) string {
	if list == nil {
		return ""
	}
	if len(list) != len(o.gang) {
		return fmt.Sprintf("%d of %d Pods have a place", len(list), len(o.gang))
	}
	var placed []*corev1.Pod
	for _, one := range list {
		index := slices.IndexFunc(o.gang, func(pod *corev1.Pod) bool { return pod.Name == one.pod })
		if why := o.judge(o.gang[index], one.node, placed); why != "" {
			return one.pod + " on " + one.node + ": " + why
		}
		placed = append(placed, at(o.gang[index], one.node))
		if o.together != "" && (o.domainOf(one.node) == "" || o.domainOf(one.node) != o.domainOf(list[0].node)) {
			return one.pod + " on " + one.node + ": not in the domain of the others"
		}
	}
	return ""
}

// judge returns why the filters refuse a Pod on a node, in a new snapshot in which others of
// the gang have been placed.
func (o *oracle) judge(pod *corev1.Pod, node string, placed []*corev1.Pod) string {
	return o.refusals(pod, placed)[node]
}

// refusals returns why the filters refuse a Pod, by node, in a new snapshot in which others of
// the gang have been placed.
func (o *oracle) refusals(pod *corev1.Pod, placed []*corev1.Pod) map[string]string {
	before := o.lister.Snapshot
	defer func() { o.lister.Snapshot = before }()
	o.lister.Snapshot = cache.NewSnapshot(slices.Concat(o.running, placed), o.nodes)
	state := framework.NewCycleState()
	result, status, _ := o.framework.RunPreFilterPlugins(o.t.Context(), state, pod)
	refused := map[string]string{}
	for _, node := range o.nodes {
		switch {
		case !status.IsSuccess():
			refused[node.Name] = status.Message()
		case !result.AllNodes() && !result.NodeNames.Has(node.Name):
			refused[node.Name] = "not among the nodes of PreFilter"
		default:
			info, err := o.lister.NodeInfos().Get(node.Name)
			if err != nil {
				o.t.Fatal(err)
			}
			refused[node.Name] = o.framework.RunFilterPlugins(o.t.Context(), state, pod, info).Message()
		}
	}
	return refused
}
