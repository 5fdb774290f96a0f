// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Admission is what a queueing system that owns the quota, such as Kueue, says about a task that is
// submitted to it.
type Admission struct {
	// Admitted is true while the task's Pods may exist.
	Admitted bool
	// Reason is a CamelCase word and Message a sentence about why they may not.
	Reason, Message string
	// Grants are what the roles of an admitted task were given, by the role's name, which is empty
	// in a task without roles. A role that is missing is not limited.
	Grants map[string]Grant
}

// Grant is what a role of an admitted task was given. Its Pods get what the fields say, in addition
// to what is in the task.
type Grant struct {
	// Pods is how many Pods of the role may exist at the same time.
	Pods int

	Labels, Annotations, NodeSelector map[string]string
	Tolerations                       []corev1.Toleration
	SchedulingGates                   []corev1.PodSchedulingGate
}

// isHeld reports whether the task may have no Pods now.
func (d *decision) isHeld() bool { return d.Admission != nil && !d.Admission.Admitted }

// hold stops the task until it is admitted.
func (d *decision) hold() {
	if d.pause(d.Admission.Reason, d.Admission.Message, d.Admission.Message) {
		d.status.Message = d.Admission.Message
	}
}

// granted returns how many Pods of a role may exist at the same time.
func (d *decision) granted(role *Role) int {
	if d.Admission != nil {
		if grant, found := d.Admission.Grants[role.Name]; found {
			return grant.Pods
		}
	}
	return math.MaxInt
}

// limitToGrants decides which members of a gang have a Pod now, if fewer were admitted than it has.
// Those that have one keep it.
func (d *decision) limitToGrants() {
	if d.Admission == nil || IsArray(d.Task) {
		return // limitParallelism is about arrays
	}
	for i := range d.roles {
		role := &d.roles[i]
		members := d.members[role.First : role.First+role.Count()]
		free := d.granted(role)
		if i == 0 {
			free -= d.activeStrays() // only a gang without roles can become smaller
		}
		for _, hasPod := range []bool{true, false} {
			for _, m := range members {
				if m.done() || (m.pod != nil) != hasPod {
					continue
				}
				if m.queued = free <= 0; m.queued && hasPod && m.state.isActive() && m.state != podTerminating {
					d.plan.Delete = append(d.plan.Delete, m.pod)
				}
				free--
			}
		}
	}
}

// activeStrays returns how many Pods still hold a node, or may come to hold one, that belong to no
// member.
func (d *decision) activeStrays() int {
	count := 0
	for _, pod := range d.stray {
		if outcomeOf(pod).isActive() {
			count++
		}
	}
	return count
}

// newPod returns the Pod of a member with what its role was given.
func (d *decision) newPod(m *member) (*corev1.Pod, error) {
	pod, err := newPod(d.Task, m.role, m.index, m.attempt, d.Config.Pods)
	if err != nil {
		return nil, err
	}
	pod.Labels[v1.LabelTemplateHash] = d.templateHash()
	if d.plan.MinAvailable != "" {
		pod.Labels[v1.LabelMinAvailable] = d.plan.MinAvailable
	}
	if d.Admission == nil {
		return pod, nil
	}
	grant := d.Admission.Grants[m.role.Name]
	return pod, grant.Apply(pod)
}

// Apply adds what was given to a Pod. An error names what contradicts the task.
func (g *Grant) Apply(pod *corev1.Pod) error {
	var err error
	if pod.Labels, err = merged("label", pod.Labels, g.Labels); err != nil {
		return err
	}
	if pod.Annotations, err = merged("annotation", pod.Annotations, g.Annotations); err != nil {
		return err
	}
	if pod.Spec.NodeSelector, err = merged("node selector", pod.Spec.NodeSelector, g.NodeSelector); err != nil {
		return err
	}
	for i := range g.Tolerations {
		given := &g.Tolerations[i]
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(own corev1.Toleration) bool { return own.MatchToleration(given) }) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, *given)
		}
	}
	for _, gate := range g.SchedulingGates {
		if !slices.Contains(pod.Spec.SchedulingGates, gate) {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, gate)
		}
	}
	return nil
}

// merged returns the task's own values with the given ones added.
func merged(kind string, own, given map[string]string) (map[string]string, error) {
	if len(given) == 0 {
		return own, nil
	}
	both := maps.Clone(given)
	for key, value := range own {
		if other, found := given[key]; found && other != value {
			return nil, fmt.Errorf("the task was admitted with the %s %s=%s, and asks for %s=%s itself: change its template or the flavor", kind, key, other, key, value)
		}
		both[key] = value
	}
	return both, nil
}

// WantsQuota reports whether a task needs quota now: it has not finished, is not suspended by its
// user, and waits for no other task.
func WantsQuota(task *v1.GPUTask) bool {
	return task.DeletionTimestamp == nil && !IsFinished(task) && !SuspensionRequested(task) && !WaitsForDependencies(task)
}

// ActivePods returns how many Pods of each role hold, or may come to hold, a node, by the role's
// name. Those of members that the task has no more count for its first role.
func ActivePods(task *v1.GPUTask, pods []*corev1.Pod) map[string]int {
	roles := Roles(task)
	active := map[string]int{}
	for _, pod := range pods {
		if !outcomeOf(pod).isActive() {
			continue
		}
		name := roles[0].Name
		if index, found := memberIndex(task, roles, pod.Name); found {
			name = roleAt(task, index).Name
		}
		active[name]++
	}
	return active
}

// NeededPods returns how many Pods of each role may exist at the same time from now on, by the role's
// name. A gang may start again as a whole, with the members that have succeeded; of an array, no more
// run than have still to succeed. An error means that this package did not write the status.
func NeededPods(task *v1.GPUTask, status *v1.GPUTaskStatus) (map[string]int, error) {
	needed := map[string]int{}
	if !IsArray(task) {
		roles := Roles(task)
		for i := range roles {
			needed[roles[i].Name] = roles[i].Count()
		}
		return needed, nil
	}
	completed, err := parseIndexes(status.CompletedIndexes)
	if err != nil {
		return nil, fmt.Errorf("status.completedIndexes: %w", err)
	}
	failed, err := parseIndexes(status.FailedIndexes)
	if err != nil {
		return nil, fmt.Errorf("status.failedIndexes: %w", err)
	}
	for index := range Total(task) {
		if !completed.has(index) && !failed.has(index) && needed[""] < Replicas(task) {
			needed[""]++
		}
	}
	return needed, nil
}
