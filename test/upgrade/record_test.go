// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// quietFor is how long nothing must have changed before what is there counts as the state before an
// upgrade.
const quietFor = 2 * time.Second

// settle returns the state of the cluster when nothing in it has changed for a while.
func (s *scene) settle() state {
	s.Helper()
	last, since := s.record(), s.clock.Elapsed()
	s.eventually("nothing changes any more", func() (bool, string) {
		now := s.record()
		if changes := differences(last, now); len(changes) > 0 {
			last, since = now, s.clock.Elapsed()
			return false, strings.Join(changes, "\n")
		}
		return s.clock.Elapsed()-since > quietFor, "it was changing a moment ago"
	})
	return s.record()
}

// record returns the state of the cluster.
func (s *scene) record() state {
	s.Helper()
	recorded := state{
		pods: map[string]pod{}, tasks: map[string]task{}, plans: map[string]plan{},
		reservations: map[string][]reservedPlace{}, events: map[types.UID]event{},
	}
	s.recordCore(&recorded)
	tasks, err := s.tasks.FalldioV1().GPUTasks(metav1.NamespaceAll).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range tasks.Items {
		recorded.tasks[key(&tasks.Items[i])] = recordTask(&tasks.Items[i])
	}
	plans, err := s.tasks.FalldioV1().MovePlans().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range plans.Items {
		recorded.plans[plans.Items[i].Name] = recordPlan(&plans.Items[i])
	}
	return recorded
}

func (s *scene) recordCore(recorded *state) {
	s.Helper()
	pods, err := s.kube.CoreV1().Pods(metav1.NamespaceAll).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range pods.Items {
		recorded.pods[key(&pods.Items[i])] = recordPod(&pods.Items[i])
	}
	nodes, err := s.kube.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range nodes.Items {
		places, err := recordReservations(&nodes.Items[i])
		if err != nil {
			s.Fatal(err)
		}
		if len(places) > 0 {
			recorded.reservations[nodes.Items[i].Name] = places
		}
	}
	events, err := s.kube.CoreV1().Events(metav1.NamespaceAll).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range events.Items {
		recorded.events[events.Items[i].UID] = recordEvent(&events.Items[i])
	}
}

func key(object metav1.Object) string { return object.GetNamespace() + "/" + object.GetName() }

func recordPod(p *corev1.Pod) pod {
	recorded := pod{
		uid: p.UID, node: p.Spec.NodeName, phase: string(p.Status.Phase), assignment: p.Annotations[inventory.AssignmentAnnotation],
		started: text(p.Status.StartTime), leaving: p.DeletionTimestamp != nil,
	}
	if name := p.Labels[v1.LabelTask]; name != "" {
		recorded.task = p.Namespace + "/" + name
	}
	for i := range p.Status.ContainerStatuses {
		recorded.restarts += p.Status.ContainerStatuses[i].RestartCount
	}
	return recorded
}

func recordTask(t *v1.GPUTask) task {
	status := &t.Status
	recorded := task{
		uid: t.UID, phase: status.Phase, message: status.Message, restarts: status.Restarts, moves: status.Moves,
		counts: [4]int32{status.Pending, status.Running, status.Succeeded, status.Failed}, started: text(status.StartTime),
		conditions: map[string]string{},
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		recorded.conditions[condition.Type] = fmt.Sprintf("%s since %s", condition.Status, text(&condition.LastTransitionTime))
	}
	return recorded
}

func recordPlan(p *v1.MovePlan) plan {
	recorded := plan{phase: p.Status.Phase}
	for _, move := range p.Status.Moves {
		recorded.moves = append(recorded.moves, strings.TrimSpace(fmt.Sprintf("%s %s %s", move.State, move.Node, text(move.EvictedAt))))
	}
	return recorded
}

func recordReservations(node *corev1.Node) ([]reservedPlace, error) {
	list, err := reservation.Of(node)
	var places []reservedPlace
	for i := range list {
		r := &list[i]
		places = append(places, reservedPlace{plan: r.Plan, place: fmt.Sprintf("%s %s %v %d×%d%%", r.Kind, r.Pod, r.GPUs, r.Count(), r.PercentOfEach())})
	}
	slices.SortFunc(places, func(a, b reservedPlace) int { return strings.Compare(a.plan+a.place, b.plan+b.place) })
	return places, err
}

func recordEvent(e *corev1.Event) event {
	count := e.Count
	if e.Series != nil {
		count += e.Series.Count
	}
	return event{
		count: max(count, 1), kind: e.InvolvedObject.Kind, namespace: e.InvolvedObject.Namespace, name: e.InvolvedObject.Name,
		eventType: e.Type, reason: e.Reason, text: e.Message,
	}
}

// text returns a time as text; empty for none.
func text(at *metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// describe returns how many tasks are in which phase.
func (s state) describe() string {
	phases := map[v1.GPUTaskPhase]int{}
	for _, one := range s.tasks {
		phases[one.phase]++
	}
	var texts []string
	for _, phase := range slices.Sorted(maps.Keys(phases)) {
		texts = append(texts, fmt.Sprintf("%d %s", phases[phase], phase))
	}
	return fmt.Sprintf("%d tasks (%s) with %d Pods", len(s.tasks), strings.Join(texts, ", "), len(s.pods))
}
