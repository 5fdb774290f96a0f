// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// NodeChange is a new value for the reservations annotation of a Node; "" removes it.
type NodeChange struct {
	Node  *corev1.Node
	Value string
}

// Reservations returns the Nodes whose reservations differ from those that the plans of a
// cluster need: missing, about to expire, or of plans that no longer need them. Nodes
// without changes cost next to nothing. If namespace is not empty, only reservations for
// Pods of that namespace are changed.
func Reservations(objects *clusterview.Objects, namespace string, moveTimeout time.Duration) ([]NodeChange, error) {
	wanted := map[string][]want{}
	tasks := tasksByName(objects.Tasks)
	for _, plan := range objects.Plans {
		if plan.Status.Phase == v1.PlanExecuting && len(plan.Status.Moves) == len(plan.Spec.Moves) {
			addWanted(wanted, objects, tasks, plan, moveTimeout)
		}
	}
	var changes []NodeChange
	for _, node := range objects.Nodes {
		if node.Annotations[reservation.Annotation] == "" && len(wanted[node.Name]) == 0 {
			continue
		}
		value, err := reservation.Format(merge(node, wanted[node.Name], namespace, objects.Now))
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", node.Name, err)
		}
		if value != node.Annotations[reservation.Annotation] {
			changes = append(changes, NodeChange{Node: node, Value: value})
		}
	}
	return changes, nil
}

// want is a reservation that a plan needs.
type want struct {
	reservation.Reservation
	// pod determines the size of the reservation; nil while there is no Pod of that name.
	pod *corev1.Pod
	// span is for how long from now it is needed at most.
	span time.Duration
}

// need is a place that a plan needs for a Pod.
type need struct {
	kind            reservation.Kind
	task            *clusterview.Task
	namespace, name string
	place           v1.MovePlace
}

// addWanted adds the reservations that a plan needs.
func addWanted(wanted map[string][]want, objects *clusterview.Objects, tasks map[taskKey]*clusterview.Task, plan *v1.MovePlan, timeout time.Duration) {
	rest := span(tasks, plan, timeout)
	for _, n := range append(needsOfMoves(objects, tasks, plan, timeout), needsOfTask(tasks, plan)...) {
		if n.place.Node == "" {
			continue // the scheduler chooses
		}
		wanted[n.place.Node] = append(wanted[n.place.Node], want{
			Reservation: reservation.Reservation{Plan: plan.Name, Pod: reservation.PodKey(n.namespace, n.name), Kind: n.kind, GPUs: n.place.GPUs},
			pod:         podNamed(n.task, n.name),
			span:        rest,
		})
	}
}

// needsOfMoves returns the places that Pods are moved to, and those that the Pods of the
// current turn leave: if a destination is lost in the meantime, the old place must still be
// free, not taken by Pods that are waiting. A plan that is being stopped keeps only the
// latter if the destinations turned out to be wrong: for the whole turn, since a gang must
// not be split between old and new places.
func needsOfMoves(objects *clusterview.Objects, tasks map[taskKey]*clusterview.Task, plan *v1.MovePlan, timeout time.Duration) []need {
	stopping := plan.Status.Reason != ""
	turn := currentTurn(plan, plan.Status.Moves)
	goesBack := stopping && (isOver(tasks, plan, turn, timeout, objects.Now) || lostPlace(objects.Nodes, tasks, plan, turn) != "")
	var needs []need
	for i := range plan.Spec.Moves {
		move, state := &plan.Spec.Moves[i], plan.Status.Moves[i].State
		n := need{kind: reservation.Move, task: taskOf(tasks, &move.Task), namespace: move.Task.Namespace, name: move.Pod, place: move.To}
		if stopped(n.task) || !isOpen(state) || (stopping && state == v1.MoveWaiting) {
			continue
		}
		if goesBack && move.To.Node != "" {
			n.kind, n.place = reservation.Start, move.From
		} else if move.Turn == turn && move.To.Node != "" && move.To.Node != move.From.Node {
			back := n
			back.kind, back.place = reservation.Start, move.From
			needs = append(needs, back)
		}
		needs = append(needs, n)
	}
	return needs
}

// needsOfTask returns the places of the task that room is made for.
func needsOfTask(tasks map[taskKey]*clusterview.Task, plan *v1.MovePlan) []need {
	if plan.Status.Reason != "" || plan.Spec.For == nil {
		return nil
	}
	task := taskOf(tasks, plan.Spec.For)
	if stopped(task) {
		return nil
	}
	var needs []need
	for i := range plan.Spec.Places {
		place := &plan.Spec.Places[i]
		if pod := podNamed(task, place.Pod); pod == nil || pod.Spec.NodeName == "" {
			needs = append(needs, need{kind: reservation.Start, task: task, namespace: task.Namespace, name: place.Pod, place: place.MovePlace})
		}
	}
	return needs
}

// lostPlace returns which Pod of a turn can't reach its destination; "" if all can.
func lostPlace(nodes []*corev1.Node, tasks map[taskKey]*clusterview.Task, plan *v1.MovePlan, turn int32) string {
	for i := range plan.Spec.Moves {
		move := &plan.Spec.Moves[i]
		if move.Turn != turn || move.To.Node == "" || !isOpen(plan.Status.Moves[i].State) {
			continue
		}
		after := observe(tasks, move).after
		isThere := after != nil && after.Spec.NodeName == move.To.Node
		if why := unusable(nodes, move.To.Node, isThere); why != "" {
			return fmt.Sprintf("Pod %s/%s can't reach its destination: %s", move.Task.Namespace, move.Pod, why)
		}
	}
	return ""
}

// unusable returns why a Pod can't run on a node; "" if it can, judging by the Node alone.
// A cordon does not affect a Pod that is already there.
func unusable(nodes []*corev1.Node, name string, isThere bool) string {
	at := slices.IndexFunc(nodes, func(node *corev1.Node) bool { return node.Name == name })
	if at < 0 {
		return "node " + name + " is gone"
	}
	if nodes[at].Spec.Unschedulable && !isThere {
		return "node " + name + " is cordoned"
	}
	if !snapshot.Ready(nodes[at]) {
		return "node " + name + " is not ready"
	}
	return ""
}

// isOver reports whether the time limit of a turn has passed: its places turned out to be
// wrong.
func isOver(tasks map[taskKey]*clusterview.Task, plan *v1.MovePlan, turn int32, timeout time.Duration, now time.Time) bool {
	begin := plan.Status.TurnTime
	return begin != nil && !now.Before(begin.Add(turnLimit(tasks, plan, turn, timeout)))
}

func podNamed(task *clusterview.Task, name string) *corev1.Pod {
	if task == nil {
		return nil
	}
	var found *corev1.Pod
	for _, pod := range task.Pods {
		if pod.Name == name && (found == nil || found.DeletionTimestamp != nil) {
			found = pod
		}
	}
	return found
}

// merge returns the reservations that a node should have. Existing ones are kept until half
// of their time has passed; those of other namespaces are always kept.
func merge(node *corev1.Node, wanted []want, namespace string, now time.Time) []reservation.Reservation {
	existing, err := reservation.Of(node)
	if err != nil {
		existing = nil // rewritten
	}
	byKey := map[string]reservation.Reservation{}
	for i := range existing {
		if namespace != "" && !strings.HasPrefix(existing[i].Pod, reservation.PodKey(namespace, "")) {
			byKey[key(&existing[i])] = existing[i]
		}
	}
	for i := range wanted {
		w := &wanted[i]
		found := slices.IndexFunc(existing, func(r reservation.Reservation) bool { return same(&r, &w.Reservation) })
		if found >= 0 && existing[found].Until.Sub(now) >= w.span/2 {
			byKey[key(&w.Reservation)] = existing[found]
			continue
		}
		built, ok := w.build(now)
		switch {
		case ok:
			byKey[key(&built)] = built
		case found >= 0:
			renewed := existing[found]
			renewed.Until = w.until(now)
			byKey[key(&renewed)] = renewed
		}
	}
	return slices.SortedFunc(maps.Values(byKey), func(a, b reservation.Reservation) int {
		return cmp.Or(strings.Compare(a.Plan, b.Plan), strings.Compare(a.Pod, b.Pod))
	})
}

func key(r *reservation.Reservation) string { return r.Plan + " " + r.Pod }

func same(a, b *reservation.Reservation) bool {
	return a.Plan == b.Plan && a.Pod == b.Pod && a.Kind == b.Kind && slices.Equal(a.GPUs, b.GPUs)
}

func (w *want) until(now time.Time) time.Time { return now.Add(w.span).UTC().Truncate(time.Second) }

// build returns the reservation with what the Pod needs. ok is false while there is no such
// Pod: between a Pod and its replacement, the last reservation is kept.
func (w *want) build(now time.Time) (built reservation.Reservation, ok bool) {
	if w.pod == nil {
		return reservation.Reservation{}, false
	}
	shape, err := snapshot.Shape(w.pod)
	if err != nil {
		return reservation.Reservation{}, false
	}
	built = w.Reservation
	built.CPU, built.Memory, built.Others, built.Until = shape.CPU, shape.Memory, shape.Others.Map(), w.until(now)
	switch {
	case shape.Share > 0:
		built.Percent = shape.Share
	case shape.GPUs > 0:
		built.Percent = placement.Card
	}
	if len(built.GPUs) == 0 {
		built.Cards = max(shape.GPUs, min(shape.Share, 1))
	}
	built.Priority = ptr.Deref(w.pod.Spec.Priority, 0)
	return built, true
}

// needed returns the reservations that the plan needs, by node, and the Nodes by name.
func (s *step) needed() (wanted map[string][]want, nodes map[string]*corev1.Node) {
	wanted = map[string][]want{}
	addWanted(wanted, s.Objects, s.tasks, s.Plan, s.MoveTimeout)
	nodes = make(map[string]*corev1.Node, len(s.Objects.Nodes))
	for _, node := range s.Objects.Nodes {
		nodes[node.Name] = node
	}
	return wanted, nodes
}

// missingNode returns the name of a node that the plan needs and that is gone.
func (s *step) missingNode() string {
	wanted, nodes := s.needed()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if nodes[name] == nil {
			return name
		}
	}
	return ""
}

// unreserved returns which place that the plan needs is not reserved yet; "" if all are.
func (s *step) unreserved() string {
	wanted, nodes := s.needed()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		there, err := reservation.Of(nodes[name])
		if err != nil {
			return err.Error()
		}
		for i := range wanted[name] {
			w := &wanted[name][i]
			if w.pod == nil {
				continue
			}
			if !slices.ContainsFunc(there, func(r reservation.Reservation) bool { return same(&r, &w.Reservation) && r.Holds(s.now) }) {
				return fmt.Sprintf("the place of Pod %s on node %s is not reserved yet", w.Pod, name)
			}
		}
	}
	return ""
}
