// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unschedulable tells autoscalers which Pods need room. Only the leader of a gang
// that finds no place has a scheduling cycle, after which kube-scheduler writes the condition
// that autoscalers read. This package writes it to the other members, so that room is added
// for all of them.
package unschedulable

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/podwrite"
)

const (
	// period is how often Pods are written, and atOnce how many at a time: a gang of a
	// thousand must not delay what the scheduler does itself.
	period = time.Second
	atOnce = 50
	// settle is how long a gang has to wait before its members are written: an attempt may
	// be followed by a preemption, or by another attempt that finds a place.
	settle = time.Second
	// textPeriod is how often the message of a Pod that has the condition may change.
	// Autoscalers don't read the message.
	textPeriod = time.Minute
	// writeLimit bounds how long the API server may take for one Pod.
	writeLimit = 10 * time.Second
)

// Gangs knows which Pods wait.
type Gangs interface {
	// Fails reports whether a gang waits because its last attempt found no place.
	Fails(gang string) bool
	// Unplaced returns the Pods of such a gang that wait, except the leader.
	Unplaced(gang string) []*corev1.Pod
}

// Reporter writes the conditions. It is safe for concurrent use.
type Reporter struct {
	client kubernetes.Interface
	clock  clock.PassiveClock
	gangs  Gangs
	// mayWrite reports whether this process leads. hasProspect reports whether a gang will
	// fit when Pods have left that are about to: it needs no other room.
	mayWrite    func() bool
	hasProspect func(gang string) bool

	mu      sync.Mutex
	reports map[string]*report
}

// report is why a gang waits.
type report struct {
	gang, text string
	// since is when the gang was first reported, and changedAt when a Pod was last written
	// whose condition it only changed.
	since, changedAt time.Time
	// pending is true if the text may not have been written to all members.
	pending bool
	// written are the texts of members that the informer may not show yet. The map is never
	// changed, only replaced.
	written map[types.UID]string
}

// New returns a Reporter.
func New(client kubernetes.Interface, clock clock.PassiveClock, gangs Gangs, mayWrite func() bool, hasProspect func(string) bool) *Reporter {
	return &Reporter{client: client, clock: clock, gangs: gangs, mayWrite: mayWrite, hasProspect: hasProspect, reports: map[string]*report{}}
}

// Report records that an attempt has found no place for a gang, and why. It returns at
// once. Each member is written at most once for each text.
func (r *Reporter) Report(gang, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.reports[gang]
	if one == nil {
		one = &report{gang: gang, since: r.clock.Now(), written: map[types.UID]string{}}
		r.reports[gang] = one
	}
	one.text, one.pending = text, true
}

// Run writes until ctx ends.
func (r *Reporter) Run(ctx context.Context) { wait.UntilWithContext(ctx, r.write, period) }

// write writes what is due, at most atOnce Pods.
func (r *Reporter) write(ctx context.Context) {
	if !r.mayWrite() {
		return
	}
	left := atOnce
	for _, one := range r.due() {
		switch {
		case !r.gangs.Fails(one.gang):
			r.drop(one.gang)
			continue
		case !one.pending || r.hasProspect(one.gang):
			continue
		}
		if left = r.writeGang(ctx, one, left); left == 0 {
			return
		}
	}
}

// due returns copies of the reports of gangs that have waited long enough, the oldest
// first.
func (r *Reporter) due() []report {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	var due []report
	for _, one := range r.reports {
		if now.Sub(one.since) >= settle {
			due = append(due, *one)
		}
	}
	slices.SortFunc(due, func(a, b report) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.gang, b.gang)) })
	return due
}

func (r *Reporter) drop(gang string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reports, gang)
}

// writeGang writes Pods of a gang, at most limit, and returns how many more may be written.
func (r *Reporter) writeGang(ctx context.Context, one report, limit int) (left int) {
	now := r.clock.Now()
	changed, complete, written := false, true, map[types.UID]string{}
	for _, pod := range r.gangs.Unplaced(one.gang) {
		known := one.written[pod.UID]
		if known != "" {
			written[pod.UID] = known
		}
		before := conditionOf(pod)
		isChange := known != "" || before != nil
		switch {
		case one.shownBy(pod, before):
		case limit == 0, isChange && now.Sub(one.changedAt) < textPeriod:
			complete = false
		default:
			limit--
			if !r.writePod(ctx, pod, before, one.text) {
				complete = false
				continue
			}
			written[pod.UID], changed = one.text, changed || isChange
		}
	}
	r.wrote(one, written, changed, complete)
	return limit
}

// shownBy reports whether nothing is to be written to a Pod with this condition: it has the
// text already, or a prospect of its own.
func (o *report) shownBy(pod *corev1.Pod, condition *corev1.PodCondition) bool {
	return pod.Status.NominatedNodeName != "" || o.written[pod.UID] == o.text ||
		condition != nil && strings.Contains(condition.Message, o.text)
}

// wrote records which members of a gang have been written, whether that changed the text of
// any, and whether it is complete.
func (r *Reporter) wrote(one report, written map[types.UID]string, changed, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := r.reports[one.gang]
	if current == nil {
		return
	}
	current.written = written
	if changed {
		current.changedAt = r.clock.Now()
	}
	if complete && current.text == one.text {
		current.pending = false
	}
}

// conditionOf returns the condition that says that a Pod found no place; nil without one.
func conditionOf(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		one := &pod.Status.Conditions[i]
		if one.Type == corev1.PodScheduled && one.Status == corev1.ConditionFalse && one.Reason == corev1.PodReasonUnschedulable {
			return one
		}
	}
	return nil
}

// writePod writes the condition, if the Pod is still as it is known: it must not be written
// to a Pod that has been bound meanwhile. It returns false if it has to be tried again.
func (r *Reporter) writePod(ctx context.Context, pod *corev1.Pod, before *corev1.PodCondition, text string) bool {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	since := metav1.NewTime(r.clock.Now())
	if before != nil {
		since = before.LastTransitionTime
	}
	patch, err := podwrite.Patch{
		Metadata: podwrite.Metadata{UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Status: &podwrite.Status{Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: text, LastTransitionTime: since,
		}}},
	}.Bytes()
	if err == nil {
		_, err = r.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	switch {
	case podwrite.IsGone(err):
		return true
	case apierrors.IsConflict(err): // the informer will show what has changed
		return false
	case err != nil:
		klog.FromContext(ctx).Error(err, "A Pod's condition could not be written; trying again", "pod", klog.KObj(pod))
	}
	return err == nil
}
