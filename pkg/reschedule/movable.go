// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// Annotations that keep a Pod where it is, by which users tell the autoscalers of nodes as much.
const (
	annotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict" // if it is "false"
	annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"                    // if it is "true", or for a time, such as "8h", from the Pod's start
)

// Immovable returns why a task may not be moved now; it is empty if it may.
func (p *Planner) Immovable(task *clusterview.Task) string {
	units := p.UnitsOf(clusterview.NameOf(task.GPUTask))
	if len(units) == 0 {
		return "it has no Pods"
	}
	for _, u := range units {
		if why := p.immovableReason(u); why != "" {
			return why
		}
	}
	return ""
}

// immovableReason returns why a unit may not be moved now; it is empty if it may.
func (p *Planner) immovableReason(u *clusterview.Unit) string {
	why, known := p.immovable[u]
	if !known {
		if why = p.permanentReason(u); why == "" {
			why = p.temporaryReason(u)
		}
		p.immovable[u] = why
	}
	return why
}

// permanentReason returns why a unit may not be moved at all, in its current state. It also
// invalidates a plan that moves the unit.
func (p *Planner) permanentReason(u *clusterview.Unit) string {
	if u.Err != nil {
		return u.Err.Error()
	}
	for _, m := range u.Members {
		if why := permanentPodReason(m, p.Now); why != "" {
			return why
		}
	}
	for _, task := range u.Tasks {
		if why := p.permanentTaskReason(task); why != "" {
			return why
		}
	}
	return ""
}

func permanentPodReason(m *clusterview.Member, now time.Time) string {
	switch {
	case m.Task == nil:
		return fmt.Sprintf("Pod %s belongs to no GPUTask", m.Pod.Name)
	case m.Err != nil:
		return fmt.Sprintf("Pod %s %v", m.Pod.Name, m.Err)
	case !m.Runs():
		return fmt.Sprintf("Pod %s is not running, or is terminating", m.Pod.Name)
	}
	if what := podObstacle(m.Pod, now); what != "" {
		return fmt.Sprintf("Pod %s %s", m.Pod.Name, what)
	}
	return ""
}

// podObstacle returns what prevents a Pod from being moved, or restricts where it may go by
// rules that the engine does not know.
func podObstacle(pod *corev1.Pod, now time.Time) string {
	if annotation := keptBy(pod, now); annotation != "" {
		return "has the annotation " + annotation
	}
	switch {
	case len(pod.Spec.ResourceClaims) > 0:
		return "has resource claims"
	case hasHostPort(pod):
		return "has a host port"
	case hasInterPodConstraints(pod):
		return "has Pod affinity or topology spread constraints"
	}
	return ""
}

// keptBy returns the annotation that keeps a Pod where it is; empty if none does.
func keptBy(pod *corev1.Pod, now time.Time) string {
	if pod.Annotations[annotationSafeToEvict] == "false" {
		return annotationSafeToEvict + "=false"
	}
	value := pod.Annotations[annotationDoNotDisrupt]
	lasts, err := time.ParseDuration(value)
	if value == "true" || (err == nil && now.Before(podfacts.FirstStarted(pod).Add(lasts))) {
		return annotationDoNotDisrupt + "=" + value
	}
	return ""
}

func hasHostPort(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
		return slices.ContainsFunc(container.Ports, func(port corev1.ContainerPort) bool { return port.HostPort > 0 })
	})
}

func hasInterPodConstraints(pod *corev1.Pod) bool {
	for _, spread := range pod.Spec.TopologySpreadConstraints {
		if spread.WhenUnsatisfiable == corev1.DoNotSchedule {
			return true
		}
	}
	affinity := pod.Spec.Affinity
	if affinity == nil {
		return false
	}
	near, apart := affinity.PodAffinity, affinity.PodAntiAffinity
	return (near != nil && len(near.RequiredDuringSchedulingIgnoredDuringExecution) > 0) ||
		(apart != nil && len(apart.RequiredDuringSchedulingIgnoredDuringExecution) > 0)
}

func (p *Planner) permanentTaskReason(task *clusterview.Task) string {
	switch {
	case p.Options.Namespace != "" && task.Namespace != p.Options.Namespace:
		return "only tasks of namespace " + p.Options.Namespace + " are moved"
	case task.DeletionTimestamp != nil:
		return "it is being deleted"
	case gputask.SuspensionRequested(task.GPUTask):
		return "it is suspended"
	case task.Status.Phase != v1.PhaseRunning:
		return "it is not running"
	case neverMoves(task.GPUTask):
		return "spec.rescheduling.policy is Never"
	case !complete(task):
		return "not all of its Pods run"
	}
	if rules := task.Spec.Rescheduling; rules != nil && rules.MaxMoves != nil && task.Status.Moves >= *rules.MaxMoves {
		return fmt.Sprintf("it was moved %d times, as often as spec.rescheduling.maxMoves allows", task.Status.Moves)
	}
	return ""
}

func neverMoves(task *v1.GPUTask) bool {
	return task.Spec.Rescheduling != nil && task.Spec.Rescheduling.Policy == v1.ReschedulingNever
}

// complete reports whether no Pod of a task is missing except those that have succeeded. The Pods
// of an array don't miss each other.
func complete(task *clusterview.Task) bool {
	if gputask.IsArray(task.GPUTask) {
		return true
	}
	active, succeeded := 0, 0
	for _, pod := range task.Pods {
		switch {
		case podfacts.OutcomeOf(pod) == podfacts.Succeeded:
			succeeded++
		case !podfacts.Ended(pod):
			active++
		}
	}
	return active+max(succeeded, int(task.Status.Succeeded)) >= gputask.Replicas(task.GPUTask)
}

// temporaryReason returns why a unit may not be moved at the moment.
func (p *Planner) temporaryReason(u *clusterview.Unit) string {
	for _, task := range u.Tasks {
		if why := p.temporaryTaskReason(task); why != "" {
			return why
		}
	}
	return cmp.Or(p.overBudget(u), p.disruption(u))
}

func (p *Planner) temporaryTaskReason(task *clusterview.Task) string {
	if last := task.Status.LastMove; last != nil {
		if p.Now.Before(last.Time.Add(p.Options.Cooldown)) {
			return "it was moved recently and stays until " + last.Time.Add(p.Options.Cooldown).UTC().Format(time.RFC3339)
		}
	}
	if rules := task.Spec.Rescheduling; rules != nil && rules.MinRuntimeSeconds != nil {
		least := time.Duration(*rules.MinRuntimeSeconds) * time.Second
		for _, pod := range task.Pods {
			if !podfacts.Ended(pod) && p.Now.Sub(podfacts.Started(pod)) < least {
				return fmt.Sprintf("it has run for less than spec.rescheduling.minRuntimeSeconds (%d)", *rules.MinRuntimeSeconds)
			}
		}
	}
	return ""
}

// overBudget returns why a unit costs more than is left of its namespace's budget.
func (p *Planner) overBudget(u *clusterview.Unit) string {
	namespace := u.Members[0].Pod.Namespace
	left, limited := p.Ledger.GPUSecondsLeft(&p.Options, namespace)
	if !limited {
		return ""
	}
	if lost := p.lostBy(u); lost > left {
		return fmt.Sprintf("its move loses %s, namespace %s has %d left of %d for this hour",
			plural.Count(int(minutes(lost)), "GPU-minute"), namespace, left/secondsPerMinute, p.Options.GPUMinutesPerHour)
	}
	return ""
}

// minutes rounds up.
func minutes(seconds int64) int64 { return (seconds + secondsPerMinute - 1) / secondsPerMinute }

// disruption returns which PodDisruptionBudget does not allow the Pods of a unit to be
// evicted together. Units move one after the other, each when the Pods of the previous one
// run again, so that a budget need not suffice for a whole plan.
func (p *Planner) disruption(u *clusterview.Unit) string {
	pods := make([]*corev1.Pod, len(u.Members))
	for i, m := range u.Members {
		pods[i] = m.Pod
	}
	return p.Disruptions.Forbids(pods)
}
