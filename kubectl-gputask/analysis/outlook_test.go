// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

var testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const cardsOfNode = 4

func uuidOf(node, card int) string { return fmt.Sprintf("GPU-n%d-%d", node, card) }

// card identifies a GPU.
type card struct{ node, index int }

// model is the test's own model of a random cluster: which task has which card.
type model struct {
	nodes  int
	owner  map[card]string // of the cards that are used or reserved
	cards  map[string][]card
	prio   map[string]int32
	bound  map[string]bool // has a deadline
	never  map[string]bool // must not be moved
	world  clusterview.Objects
	wanted *v1.GPUTask
}

const kept = "kept"

func randomModel(dice *rand.Rand) *model {
	m := &model{
		nodes: 2 + dice.IntN(3), owner: map[card]string{}, cards: map[string][]card{}, prio: map[string]int32{}, bound: map[string]bool{}, never: map[string]bool{},
		world: clusterview.Objects{Levels: snapshot.DefaultLevels(), Now: testTime},
	}
	for node := range m.nodes {
		m.world.Nodes = append(m.world.Nodes, m.node(node))
	}
	for i := range dice.IntN(3 * m.nodes) {
		m.addTask(dice, fmt.Sprintf("t%d", i))
	}
	if dice.IntN(3) == 0 {
		m.keep(dice)
	}
	m.wanted = &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: "wanted", Namespace: "default", UID: "wanted"},
		Spec:       v1.GPUTaskSpec{GPUAmount: fmt.Sprint(1 + dice.IntN(cardsOfNode+1)), Replicas: new(int32(1 + dice.IntN(3)))},
	}
	m.prio["wanted"] = int32(dice.IntN(3))
	return m
}

func (m *model) node(index int) *corev1.Node {
	listed := inventory.Inventory{}
	for i := range cardsOfNode {
		listed.GPUs = append(listed.GPUs, inventory.GPU{Index: i, UUID: uuidOf(index, i), Model: "h100", MemoryMiB: 80000, Health: inventory.Healthy})
	}
	text, err := listed.String()
	if err != nil {
		panic(err) // the test is wrong
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", index), Annotations: map[string]string{inventory.Annotation: text}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{
				v1.ResourceGPU: *resource.NewQuantity(cardsOfNode, resource.DecimalSI), corev1.ResourcePods: resource.MustParse("100"), corev1.ResourceCPU: resource.MustParse("64"),
			},
		},
	}
}

// free returns the unused cards of a node.
func (m *model) free(node int) []card {
	var list []card
	for index := range cardsOfNode {
		if at := (card{node, index}); m.owner[at] == "" {
			list = append(list, at)
		}
	}
	return list
}

// addTask adds a task of one Pod that runs on random free cards of a node, if any.
func (m *model) addTask(dice *rand.Rand, name string) {
	node := dice.IntN(m.nodes)
	free := m.free(node)
	if len(free) == 0 {
		return
	}
	dice.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	its := free[:1+dice.IntN(min(2, len(free)))]
	start := metav1.NewTime(testTime.Add(-time.Duration(1+dice.IntN(120)) * time.Minute))
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), CreationTimestamp: start},
		Spec:       v1.GPUTaskSpec{GPUAmount: fmt.Sprint(len(its)), Replicas: new(int32(1))},
		Status:     v1.GPUTaskStatus{Phase: v1.PhaseRunning, Running: 1, StartTime: &start},
	}
	if dice.IntN(3) == 0 {
		task.Spec.ActiveDeadlineSeconds, m.bound[name] = new(int64(7200+dice.IntN(3600))), true
	}
	if dice.IntN(3) == 0 {
		task.Spec.Rescheduling, m.never[name] = &v1.Rescheduling{Policy: v1.ReschedulingNever}, true
	}
	pod, err := gputask.NewPod(task, 0, 0, gputask.PodDefaults{Image: "any"})
	if err != nil {
		panic(err) // the test is wrong
	}
	given := inventory.Assignment{}
	for _, at := range its {
		given.Add(v1.ContainerName, string(v1.ResourceGPU), uuidOf(at.node, at.index))
		m.owner[at] = name
	}
	text, err := given.String()
	if err != nil {
		panic(err) // the test is wrong
	}
	priority := int32(dice.IntN(3))
	pod.Annotations = map[string]string{inventory.AssignmentAnnotation: text}
	pod.Namespace, pod.UID, pod.Spec.NodeName, pod.Spec.Priority = "default", types.UID("pod "+name), fmt.Sprintf("n%d", node), &priority
	pod.CreationTimestamp, pod.Status = start, corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start}
	m.cards[name], m.prio[name] = its, priority
	m.world.Tasks = append(m.world.Tasks, clusterview.Task{GPUTask: task, Pods: []*corev1.Pod{pod}})
	m.world.Pods = append(m.world.Pods, pod)
}

// keep reserves a free card for a Pod of a priority above all others.
func (m *model) keep(dice *rand.Rand) {
	node := dice.IntN(m.nodes)
	free := m.free(node)
	if len(free) == 0 {
		return
	}
	text, err := reservation.Format([]reservation.Reservation{{
		Plan: "p", Pod: "default/other", Kind: reservation.Move, GPUs: []string{uuidOf(node, free[0].index)}, Priority: 1000, Until: testTime.Add(time.Hour),
	}})
	if err != nil {
		panic(err) // the test is wrong
	}
	m.world.Nodes[node].Annotations[reservation.Annotation] = text
	m.owner[free[0]] = kept
}

// fits reports whether the wanted gang fits, by counting free cards.
func (m *model) fits() bool {
	each, err := strconv.Atoi(m.wanted.Spec.GPUAmount)
	if err != nil {
		panic(err) // the test is wrong
	}
	room := 0
	for node := range m.nodes {
		room += len(m.free(node)) / each
	}
	return room >= gputask.Replicas(m.wanted)
}

// leave removes tasks.
func (m *model) leave(names ...string) {
	for at, owner := range m.owner {
		if slices.Contains(names, owner) {
			delete(m.owner, at)
		}
	}
}

// arrive puts a Pod on cards, which must be free.
func (m *model) arrive(name string, cards []card) error {
	for _, at := range cards {
		if m.owner[at] != "" {
			return fmt.Errorf("%s is placed on card %v, which %s has", name, at, m.owner[at])
		}
		m.owner[at] = name
	}
	return nil
}

func (m *model) placed(places []analysis.Place) error {
	if len(places) != gputask.Replicas(m.wanted) {
		return fmt.Errorf("%d Pods have places, want %d", len(places), gputask.Replicas(m.wanted))
	}
	for _, place := range places {
		node := 0
		if _, err := fmt.Sscanf(place.Node, "n%d", &node); err != nil {
			return err
		}
		var cards []card
		for _, index := range place.GPUs {
			cards = append(cards, card{node, index})
		}
		if fmt.Sprint(len(cards)) != m.wanted.Spec.GPUAmount {
			return fmt.Errorf("Pod %s gets %d GPUs", place.Pod, len(cards))
		}
		if err := m.arrive(place.Pod, cards); err != nil {
			return err
		}
	}
	return nil
}

// move carries out moves, turn by turn.
func (m *model) move(moves []v1.Move) error {
	for i := range moves {
		move := &moves[i]
		if m.never[move.Pod] || m.prio[move.Pod] > m.prio["wanted"] {
			return fmt.Errorf("%s must not be moved", move.Pod)
		}
		m.leave(move.Pod)
		var cards []card
		for _, uuid := range move.To.GPUs {
			at := card{}
			if _, err := fmt.Sscanf(uuid, "GPU-n%d-%d", &at.node, &at.index); err != nil {
				return err
			}
			cards = append(cards, at)
		}
		if len(cards) != len(m.cards[move.Pod]) {
			return fmt.Errorf("%s gets %d GPUs, had %d", move.Pod, len(cards), len(m.cards[move.Pod]))
		}
		if err := m.arrive(move.Pod, cards); err != nil {
			return err
		}
	}
	return nil
}

// check verifies a verdict by carrying it out.
func (m *model) check(o *analysis.Outlook) error {
	fits := m.fits()
	if fits != (o.Verdict == analysis.Now) {
		return fmt.Errorf("there is room: %t", fits)
	}
	switch o.Verdict {
	case analysis.Now:
	case analysis.AfterPreemption:
		for _, victim := range plain(o.Victims) {
			if m.prio[victim] >= m.prio["wanted"] {
				return fmt.Errorf("%s of priority %d is preempted for %d", victim, m.prio[victim], m.prio["wanted"])
			}
		}
		m.leave(plain(o.Victims)...)
	case analysis.AfterMoves:
		if err := m.move(o.Moves); err != nil {
			return err
		}
	case analysis.WhenOthersEnd:
		for _, name := range plain(o.Ends) {
			if !m.bound[name] {
				return fmt.Errorf("%s has no deadline", name)
			}
		}
		m.leave(plain(o.Ends)...)
	default:
		return m.checkNever(o)
	}
	return m.placed(o.Places)
}

// checkNever verifies the verdicts without places.
func (m *model) checkNever(o *analysis.Outlook) error {
	switch o.Verdict {
	case analysis.Sometime:
		m.leave(slices.Collect(maps.Keys(m.bound))...)
	case analysis.Never:
		m.leave(slices.Collect(maps.Keys(m.cards))...)
	default:
		return errors.New(o.Problem)
	}
	if m.fits() {
		return errors.New("it fits although the verdict denies it")
	}
	return nil
}

// plain removes the namespace from names.
func plain(names []string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = strings.TrimPrefix(name, "default/")
	}
	return list
}

func TestVerdictsAreTrue(t *testing.T) {
	t.Parallel()
	const worlds = 1000
	seen := map[analysis.Verdict]int{}
	for seed := range uint64(worlds) {
		m := randomModel(rand.New(rand.NewPCG(seed, 1)))
		admit := func(pod *corev1.Pod) error {
			pod.Spec.Priority = new(m.prio["wanted"])
			return nil
		}
		imagined, err := analysis.NewHypothetical(m.wanted, v1.ResourceGPU, admit, metav1.NewTime(testTime))
		if err != nil {
			t.Fatal(err)
		}
		m.world.Tasks = append(m.world.Tasks, *imagined)
		answer := analysis.NewView(&m.world, nil).WhatIf(imagined)
		seen[answer.Verdict]++
		if err := m.check(answer.Outlook); err != nil {
			t.Fatalf("seed %d: %s GPUs × %d, verdict %s: %v", seed, m.wanted.Spec.GPUAmount, gputask.Replicas(m.wanted), answer.Verdict, err)
		}
	}
	for _, verdict := range []analysis.Verdict{analysis.Now, analysis.AfterPreemption, analysis.AfterMoves, analysis.WhenOthersEnd, analysis.Sometime, analysis.Never} {
		if seen[verdict] < worlds/200 {
			t.Errorf("verdict %s: seen %d times in %d worlds, which proves little", verdict, seen[verdict], worlds)
		}
	}
	t.Logf("verdicts: %v", seen)
}

func TestSettledTasksTakeTheirPlaces(t *testing.T) {
	t.Parallel()
	m := randomModel(rand.New(rand.NewPCG(3, 3)))
	m.world.Tasks, m.world.Pods = nil, nil
	room := 0
	for node := range m.nodes {
		room += len(m.world.Nodes[node].Annotations[inventory.Annotation])
		delete(m.world.Nodes[node].Annotations, reservation.Annotation)
	}
	if room == 0 {
		t.Fatal("the nodes have no GPUs")
	}
	for i := range m.nodes + 1 {
		task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("all-%d", i), Namespace: "default"}, Spec: v1.GPUTaskSpec{GPUAmount: fmt.Sprint(cardsOfNode)}}
		imagined, err := analysis.NewHypothetical(task, v1.ResourceGPU, func(*corev1.Pod) error { return nil }, metav1.NewTime(testTime))
		if err != nil {
			t.Fatal(err)
		}
		world := m.world
		world.Tasks = append(slices.Clone(world.Tasks), *imagined)
		view := analysis.NewView(&world, nil)
		answer := view.WhatIf(imagined)
		if want := map[bool]analysis.Verdict{true: analysis.Now, false: analysis.Sometime}[i < m.nodes]; answer.Verdict != want {
			t.Fatalf("task %d of %d: verdict %s, want %s", i, m.nodes, answer.Verdict, want)
		}
		if err := view.Settle(imagined, answer.Outlook); err != nil {
			t.Fatal(err)
		}
		m.world.Tasks = world.Tasks
	}
}
