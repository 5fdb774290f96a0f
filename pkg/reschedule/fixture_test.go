// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// cluster is a cluster for tests.
type cluster struct {
	testing.TB
	clusterview.Objects
	options Options
	// free is how much of each card of a node is free, in percent.
	free map[string][]int
	uids int
}

func newCluster(tb testing.TB) *cluster {
	tb.Helper()
	return &cluster{TB: tb, Objects: clusterview.Objects{Now: now, Levels: snapshot.DefaultLevels()}, options: DefaultOptions(), free: map[string][]int{}}
}

// planner returns a planner for the current state of the cluster.
func (c *cluster) planner() *Planner {
	return NewPlanner(clusterview.New(&c.Objects), &c.options)
}

// node adds a node with this number of GPUs, listed by an agent.
func (c *cluster) node(name string, gpus int, change ...func(*corev1.Node)) {
	c.Helper()
	list := inventory.Inventory{Version: inventory.Version}
	for i := range gpus {
		list.GPUs = append(list.GPUs, inventory.GPU{Index: i, UUID: uuid(name, i), Model: "h100", MemoryMiB: 80000, Health: inventory.Healthy})
		c.free[name] = append(c.free[name], placement.Card)
	}
	text, err := list.String()
	if err != nil {
		c.Fatal(err)
	}
	n := node(name, func(n *corev1.Node) {
		n.Annotations = map[string]string{inventory.Annotation: text}
		n.Status.Allocatable = corev1.ResourceList{
			v1.ResourceGPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("110"),
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		}
	})
	for _, apply := range change {
		apply(n)
	}
	c.Nodes = append(c.Nodes, n)
}

func uuid(node string, gpu int) string { return fmt.Sprintf("GPU-%s-%d", node, gpu) }

func inLeaf(name string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[v1.LabelLeaf] = name }
}

// run adds a task that has run for ten minutes: a Pod for each place, "node1" or, with its
// cards, "node1:4,5".
func (c *cluster) run(name, amount string, places ...string) *clusterview.Task {
	c.Helper()
	task := c.add(name, amount, v1.PhaseRunning, len(places))
	for i, pod := range task.Pods {
		node, cards, _ := strings.Cut(places[i], ":")
		c.bind(pod, node, c.cards(node, amount, cards))
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:  v1.ContainerName,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-10 * time.Minute))}},
		}}
	}
	return task
}

// wait adds a task whose Pods have waited for a node for ten minutes.
func (c *cluster) wait(name, amount string, replicas int) *clusterview.Task {
	c.Helper()
	return c.add(name, amount, v1.PhasePending, replicas)
}

func (c *cluster) add(name, amount string, phase v1.GPUTaskPhase, replicas int) *clusterview.Task {
	c.Helper()
	created := metav1.NewTime(now.Add(-10 * time.Minute))
	task := clusterview.Task{GPUTask: &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("task-" + name), CreationTimestamp: created},
		Spec:       v1.GPUTaskSpec{GPU: "h100", GPUAmount: amount, Replicas: new(int32(replicas))},
		Status:     v1.GPUTaskStatus{Phase: phase},
	}}
	for i := range replicas {
		pod, err := gputask.NewPod(task.GPUTask, i, 0, gputask.PodDefaults{})
		if err != nil {
			c.Fatal(err)
		}
		c.uids++
		pod.UID, pod.CreationTimestamp = types.UID(fmt.Sprintf("%s-%d", pod.Name, c.uids)), created
		pod.Status.Phase = corev1.PodPending
		task.Pods = append(task.Pods, pod)
	}
	c.Tasks = append(c.Tasks, task)
	return &c.Tasks[len(c.Tasks)-1]
}

// cards parses a list of cards; without one they are the first that are free enough.
func (c *cluster) cards(node, amount, text string) []int {
	c.Helper()
	var cards []int
	if text != "" {
		for one := range strings.SplitSeq(text, ",") {
			card, err := strconv.Atoi(one)
			if err != nil {
				c.Fatal(err)
			}
			cards = append(cards, card)
		}
		return cards
	}
	count, percent := count(c, amount)
	for card, free := range c.free[node] {
		if free >= percent && len(cards) < count {
			cards = append(cards, card)
		}
	}
	if len(cards) < count {
		c.Fatalf("node %s has no room for %s", node, amount)
	}
	return cards
}

// count returns how many cards an amount is, and how much of each.
func count(tb testing.TB, amount string) (cards, percent int) {
	tb.Helper()
	number, err := strconv.ParseFloat(amount, 64)
	if err != nil {
		tb.Fatal(err)
	}
	if number < 1 {
		return 1, int(number*placement.Card + 0.5)
	}
	return int(number), placement.Card
}

// bind gives a Pod cards of a node.
func (c *cluster) bind(pod *corev1.Pod, node string, cards []int) {
	c.Helper()
	percent := placement.Card
	name := v1.ResourceGPU
	if share := pod.Spec.Containers[0].Resources.Requests[v1.ResourceGPUPercent]; !share.IsZero() {
		percent, name = int(share.Value()), v1.ResourceGPUPercent
	}
	assignment := inventory.Assignment{}
	for _, card := range cards {
		if c.free[node][card] -= percent; c.free[node][card] < 0 {
			c.Fatalf("card %d of node %s is used twice", card, node)
		}
		assignment.Add(v1.ContainerName, string(name), uuid(node, card))
	}
	text, err := assignment.String()
	if err != nil {
		c.Fatal(err)
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[inventory.AssignmentAnnotation] = text
	pod.Spec.NodeName = node
	c.Pods = append(c.Pods, pod)
}

// leave takes a Pod from its node.
func (c *cluster) leave(pod *corev1.Pod) {
	c.Helper()
	assigned, err := inventory.ParseAssignment(pod.Annotations[inventory.AssignmentAnnotation])
	if err != nil {
		c.Fatal(err)
	}
	for resource, uuids := range assigned.Containers[v1.ContainerName] {
		percent := placement.Card
		if resource == string(v1.ResourceGPUPercent) {
			share := pod.Spec.Containers[0].Resources.Requests[v1.ResourceGPUPercent]
			percent = int(share.Value())
		}
		for _, name := range uuids {
			c.free[pod.Spec.NodeName][cardOf(c, name)] += percent
		}
	}
	c.Pods = slices.DeleteFunc(c.Pods, func(other *corev1.Pod) bool { return other == pod })
}

func cardOf(tb testing.TB, uuid string) int {
	tb.Helper()
	card, err := strconv.Atoi(uuid[strings.LastIndex(uuid, "-")+1:])
	if err != nil {
		tb.Fatal(err)
	}
	return card
}

// carry carries out a plan, turn by turn, as the controller and the scheduler would, and
// fails the test if a Pod is not as planned, or its place not free. It then starts the task
// that room was made for.
func (c *cluster) carry(plan *v1.MovePlan) {
	c.Helper()
	for begin := 0; begin < len(plan.Spec.Moves); {
		end := begin
		for end < len(plan.Spec.Moves) && plan.Spec.Moves[end].Turn == plan.Spec.Moves[begin].Turn {
			c.leave(c.podByUID(plan.Spec.Moves[end].PodUID))
			end++
		}
		for i := begin; i < end; i++ {
			move := &plan.Spec.Moves[i]
			pod := c.podByUID(move.PodUID)
			c.uids++
			pod.UID = types.UID(fmt.Sprintf("%s-%d", pod.Name, c.uids))
			c.bindTo(pod, &move.To)
		}
		begin = end
	}
	for i := range plan.Spec.Places {
		place := &plan.Spec.Places[i]
		task := c.task(plan.Spec.For.Name)
		at := slices.IndexFunc(task.Pods, func(pod *corev1.Pod) bool { return pod.Name == place.Pod })
		c.bindTo(task.Pods[at], &place.MovePlace)
		task.Pods[at].Status.Phase = corev1.PodRunning
		task.Status.Phase = v1.PhaseRunning
	}
}

func (c *cluster) bindTo(pod *corev1.Pod, to *v1.MovePlace) {
	c.Helper()
	cards := make([]int, len(to.GPUs))
	for i, name := range to.GPUs {
		if cards[i] = cardOf(c, name); name != uuid(to.Node, cards[i]) {
			c.Fatalf("GPU %s is not of node %s", name, to.Node)
		}
	}
	c.bind(pod, to.Node, cards)
}

func (c *cluster) podByUID(uid types.UID) *corev1.Pod {
	c.Helper()
	for i := range c.Tasks {
		for _, pod := range c.Tasks[i].Pods {
			if pod.UID == uid {
				return pod
			}
		}
	}
	c.Fatalf("there is no Pod %s", uid)
	return nil
}

func (c *cluster) task(name string) *clusterview.Task {
	c.Helper()
	for i := range c.Tasks {
		if c.Tasks[i].Name == name {
			return &c.Tasks[i]
		}
	}
	c.Fatalf("there is no task %s", name)
	return nil
}

// at returns where the Pods of all tasks are.
func (c *cluster) at() map[string]string {
	places := map[string]string{}
	for i := range c.Tasks {
		for _, pod := range c.Tasks[i].Pods {
			places[pod.Name] = pod.Spec.NodeName
		}
	}
	return places
}

// movesText returns the moves of a plan as text: "B: node1 -> node2".
func movesText(plan *v1.MovePlan) []string {
	if plan == nil {
		return nil
	}
	var list []string
	for i := range plan.Spec.Moves {
		move := &plan.Spec.Moves[i]
		list = append(list, fmt.Sprintf("%d %s: %s -> %s", move.Turn, move.Pod, move.From.Node, move.To.Node))
	}
	return list
}

func rescheduling(change func(*v1.Rescheduling)) func(*clusterview.Task) {
	return func(task *clusterview.Task) {
		task.Spec.Rescheduling = &v1.Rescheduling{Policy: v1.ReschedulingAllowed}
		change(task.Spec.Rescheduling)
	}
}

func disruptionBudget(allowed int32, matching map[string]string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "budget", Namespace: "default"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: matching}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}
