// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// run ensures that every member that has not succeeded has a Pod of its current attempt.
func (d *decision) run() {
	if d.status.StartTime == nil {
		d.status.StartTime = d.now()
		if seconds := d.Task.Spec.ActiveDeadlineSeconds; seconds != nil {
			d.requeueAfter(time.Duration(*seconds) * time.Second)
		}
	}
	d.status.Phase = v1.PhasePending
	d.limitParallelism()
	d.limitToGrants()
	for _, pod := range d.stray {
		if state := outcomeOf(pod); state.isActive() && state != podTerminating { // how it ended matters if the gang grows again
			d.plan.Delete = append(d.plan.Delete, pod)
		}
	}
	d.stopDone()
	// A task that restarts as a whole starts only when no Pod from before is left: members of two
	// attempts would wait for each other.
	if !d.clearOldPods() {
		return
	}
	d.lowerMinAvailable()
	d.declareRuntimes()
	d.makeRoomInQuota()
	if d.awaitsRetry() {
		d.withdraw()
	} else {
		d.createService()
		d.createMissing()
	}
}

// maxPodsSize bounds the bytes of all Pods of a role together: they are in etcd and in the caches of many programs.
// Most of it is refused by the API server already: this is twice of what the CRD's schema allows arguments, variables
// and annotations.
const maxPodsSize = 512 << 20

// clearOldPods requests the deletion of Pods that have to be replaced and reports whether
// all Pods from before the last restart of the whole task are gone.
func (d *decision) clearOldPods() bool {
	gone, whole := true, taskRestarts(d.Task, d.status)
	for _, pod := range d.stray {
		gone = gone && (podAttempt(pod) >= whole.Count || !outcomeOf(pod).isActive())
	}
	for _, m := range d.members {
		if m.pod == nil || m.done() || m.queued {
			continue
		}
		gone = gone && podAttempt(m.pod) >= whole.Count
		if m.pod.DeletionTimestamp != nil {
			continue
		}
		if wait, replace := d.replaceAfter(m); !replace {
			continue
		} else if wait > 0 {
			d.requeueAfter(wait)
			continue
		}
		d.plan.Delete = append(d.plan.Delete, m.pod)
	}
	return gone
}

// replaceAfter reports whether a member's Pod has to be replaced, and after what delay. A
// failed Pod is kept until its replacement may start, so that its log can be read; a lost
// one for lostPodPause.
func (d *decision) replaceAfter(m *member) (wait time.Duration, replace bool) {
	switch {
	case m.stale && m.state == podFailed && podfacts.Ended(m.pod):
		return d.backoffLeft(m), true
	case m.stale:
		return 0, true
	case m.state == podLost && podfacts.WasRefused(m.pod):
		return m.pod.CreationTimestamp.Add(d.nodeRefusalPause()).Sub(d.Now), true
	case m.state == podLost:
		return max(m.pod.CreationTimestamp.Add(lostPodPause).Sub(d.Now), d.lossPauseLeft(m)), true
	case d.isLate(m):
		return 0, true
	default:
		return 0, false
	}
}

// awaitsRetry reports whether the next attempt to create Pods after a refusal is still to come.
func (d *decision) awaitsRetry() bool {
	if d.Refusal == nil || !d.Refusal.Retry.After(d.Now) || !d.lacksObjects() {
		return false
	}
	d.plan.AwaitsRetry = true
	d.requeueAfter(d.Refusal.Retry.Sub(d.Now))
	return true
}

// lacksObjects reports whether a Pod or the Service has to be created, now or later.
func (d *decision) lacksObjects() bool {
	return d.lacksService() || slices.ContainsFunc(d.members, (*member).lacksPod)
}

func (d *decision) lacksService() bool { return NeedsService(d.Task) && !d.HasService }

// withdraw requests the deletion of the Pods of a gang that has too few of them to start, because
// a quota does not allow more: they would hold a part of the quota for nothing, and two such gangs
// would wait for each other for ever. Pods that have a node stay.
func (d *decision) withdraw() {
	if d.Refusal.Reason != ReasonQuotaExceeded || d.countPods() >= MinAvailable(d.Task) {
		return
	}
	for _, m := range d.members {
		if m.pod != nil && m.state == podPending && m.pod.Spec.NodeName == "" {
			d.plan.Delete = append(d.plan.Delete, m.pod)
		}
	}
}

// makeRoomInQuota requests the deletion of Pods that have ended for good if a quota does not allow others: a quota may
// count them, and status.completedIndexes and failedIndexes say how they ended. Those that have failed go last, for
// their logs.
func (d *decision) makeRoomInQuota() {
	if d.Refusal == nil || d.Refusal.Reason != ReasonQuotaExceeded || !d.lacksObjects() {
		return
	}
	ended := func(is func(*member) bool) (pods []*corev1.Pod) {
		for _, m := range d.members {
			if m.pod != nil && is(m) && podfacts.Ended(m.pod) && m.pod.DeletionTimestamp == nil {
				pods = append(pods, m.pod)
			}
		}
		return pods
	}
	pods := ended(func(m *member) bool { return m.succeeded })
	if len(pods) == 0 {
		pods = ended(func(m *member) bool { return m.failed })
	}
	d.plan.Delete = append(d.plan.Delete, pods...)
}

// stopDone requests the deletion of Pods whose members are done, and which still run: containers that others have
// added, or that the kubelet restarts.
func (d *decision) stopDone() {
	for _, m := range d.members {
		if m.pod != nil && m.done() && podfacts.HoldsNode(m.pod) && m.pod.DeletionTimestamp == nil {
			d.plan.Delete = append(d.plan.Delete, m.pod)
		}
	}
}

// countPods returns how many members have succeeded or have a Pod that may still succeed.
func (d *decision) countPods() int {
	return d.countSucceeded() + d.countMembers(func(m *member) bool {
		return m.pod != nil && !m.stale && !m.done() && (m.state == podPending || m.state == podRunning)
	})
}

func (d *decision) createService() {
	if d.lacksService() {
		d.plan.CreateService = NewService(d.Task)
	}
}

func (d *decision) createMissing() {
	for _, m := range d.members {
		if !m.lacksPod() {
			continue
		}
		if wait := d.backoffLeft(m); wait > 0 {
			d.requeueAfter(wait)
			continue
		}
		if err := d.sample(m); err != nil {
			d.plan.Create, d.plan.Samples = nil, nil
			d.setFailureTarget(v1.ReasonInvalidPod, err.Error())
			d.stopAndFail()
			return
		}
		d.plan.Create = append(d.plan.Create, PlannedPod{decision: d, member: m})
	}
}

// sample builds the Pod of a member that is the first of its role in the plan. If it can be built, those of the
// others can.
func (d *decision) sample(m *member) error {
	if last := len(d.plan.Create) - 1; last >= 0 && d.plan.Create[last].member.role == m.role {
		return nil
	}
	pod, err := d.newPod(m)
	if err != nil {
		return err
	}
	if each := pod.Size(); each*m.role.Count() > maxPodsSize {
		return fmt.Errorf("%s with %d Pods of %d KiB each is too large: it must not have more than %d MiB; put long arguments, variables and annotations into a ConfigMap or a volume",
			m.role.field("template"), m.role.Count(), each>>10, maxPodsSize>>20)
	}
	d.plan.Samples = append(d.plan.Samples, pod)
	return nil
}

// backoffLeft returns how long a member that has failed or was lost must still wait before its restart.
func (d *decision) backoffLeft(m *member) time.Duration {
	pause := d.lossPauseLeft(m)
	if m.lastFailure == nil {
		return pause
	}
	next := m.lastFailure.Add(d.Config.Backoff.After(m.failures))
	return max(next.Sub(d.Now), pause)
}

// Backoff is the delay before a restart. It doubles with every failure, as the Job
// controller's does.
type Backoff struct {
	// Base is the delay after the first failure.
	Base time.Duration
	// Max bounds the delay.
	Max time.Duration
}

// After returns the delay after the given number of failures; 0 for none.
func (b Backoff) After(failures int32) time.Duration {
	if failures <= 0 {
		return 0
	}
	delay := b.Base
	for range failures - 1 {
		if delay >= b.Max {
			break
		}
		delay *= 2
	}
	return min(delay, b.Max)
}

// PlannedPod is a Pod that a plan creates. It is built only when it is sent to the API server: all Pods of a large task
// together may need more memory than the process has.
type PlannedPod struct {
	decision *decision
	member   *member
}

// Build returns the Pod.
func (p *PlannedPod) Build() (*corev1.Pod, error) { return p.decision.newPod(p.member) }

// ActivePods returns how many Pods of each role of a task hold, or may come to hold, a node once the plan is carried
// out, given the Pods that the task had before.
func (p *Plan) ActivePods(task *v1.GPUTask, pods []*corev1.Pod) map[string]int {
	active := ActivePods(task, pods)
	for i := range p.Create {
		active[p.Create[i].member.role.Name]++
	}
	return active
}
