// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/disruption"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/podwrite"
	"falldio.github.io/gpu-controller/pkg/preemption"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// requestLimit bounds how long the API server may take for one Pod.
const requestLimit = 30 * time.Second

// maxStops is how often a victim that keeps changing is tried to be stopped.
const maxStops = 5

// Sources are what an Evictor knows the cluster from, and whom it tells.
type Sources struct {
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Events    events.EventRecorderLogger
	Clock     clock.Clock
	Logger    klog.Logger
	Registry  *gangs.Registry
	// MayAct reports whether this process acts for the scheduler, and Has whether a Pod is on its node, as far as is
	// known, and has not ended.
	MayAct func() bool
	Has    func(*corev1.Pod) bool
	// Do carries out what follows for gangs, Activate has Pods tried again, and Wake those for which there may be room
	// now.
	Do       func(gangs.Actions)
	Activate func([]*corev1.Pod)
	Wake     func()
	// Abandon ends what is kept for a group if nobody leaves for it but Pods that stay after all.
	Abandon func(group string, staying []types.UID)
	// Count counts the Pods that were preempted.
	Count func()
	// Partial is after how long the Pods of incomplete gangs are evicted.
	Partial time.Duration
}

// Evictor stops Pods once it is decided that they leave, and knows who is on the way out. It is safe for concurrent
// use.
type Evictor struct {
	sources Sources
	// running are the groups whose victims are being deleted.
	running groupSet
	budgets budgets
	// nominations are the nodes that others get for that.
	nominations nominations
	// arrivalAwaited is true if a preemptor waits for Pods to be bound.
	arrivalAwaited atomic.Bool
	// evictingPartial is true while Pods of incomplete gangs are being evicted.
	evictingPartial atomic.Bool
}

// NewEvictor returns an Evictor that stops nobody yet.
func NewEvictor(sources Sources) *Evictor { return &Evictor{sources: sources} }

// Begin records that the victims of a group are about to be stopped, as far as budgets allow: they count as leaving
// from now on. Evict, which must follow, ends that.
func (e *Evictor) Begin(group string, victims []*corev1.Pod, allowed *disruption.Budgets) {
	e.running.add(group)
	e.mark(victims, allowed)
}

// UnderWay reports whether the victims of a group are being stopped.
func (e *Evictor) UnderWay(group string) bool { return e.running.has(group) }

// AwaitArrivals has Arrived say once that a preemptor waits for Pods to be bound.
func (e *Evictor) AwaitArrivals() { e.arrivalAwaited.Store(true) }

// Arrived records that a Pod was bound, and reports whether a preemptor has waited for that.
func (e *Evictor) Arrived() bool { return e.arrivalAwaited.CompareAndSwap(true, false) }

// mark records that Pods are about to be stopped. Those that are gone by now have been forgotten before: nothing would
// ever remove their marks.
func (e *Evictor) mark(victims []*corev1.Pod, allowed *disruption.Budgets) {
	e.sources.Registry.MarkTerminating(podUIDs(victims), true)
	var gone []types.UID
	for _, victim := range victims {
		if !e.sources.Has(victim) {
			gone = append(gone, victim.UID)
		}
	}
	e.sources.Do(e.sources.Registry.MarkTerminating(gone, false))
	e.budgets.pending.Add(allowed, victims)
}

// Evict stops Pods to make room for a preemptor, once they have saved their work. Who has ended until then is no
// victim. The PodDisruptionBudgets are listed again: the wait may have been long.
func (e *Evictor) Evict(ctx context.Context, group string, preemptor *corev1.Pod, victims []*corev1.Pod, taken *preemption.Queues) {
	defer e.running.remove(group)
	stillNeeded, err := e.awaitCheckpoints(ctx, preemptor, victims, taken)
	running, refused := e.stillRunning(victims), ""
	if err == nil && stillNeeded {
		refused, err = e.askBudgets(ctx, running)
	}
	switch {
	case err != nil:
		e.sources.Logger.Error(err, "Pods are preempted later", "for", klog.KObj(preemptor))
	case refused != "":
		e.sources.Logger.Info("Pods are preempted later", "for", klog.KObj(preemptor), "why", refused)
	}
	if err != nil || refused != "" || !stillNeeded || !e.sources.MayAct() {
		e.sources.Abandon(group, podUIDs(victims))
		e.letStay(preemptor, victims)
		return
	}
	e.forget(without(victims, running))
	e.stopAll(ctx, preemptor, running, taken)
}

// stillRunning returns those of some Pods, as they are now, that have neither ended nor been deleted.
func (e *Evictor) stillRunning(pods []*corev1.Pod) (list []*corev1.Pod) {
	for _, one := range e.present(pods, nil) {
		if isRunning(one.Pod) {
			list = append(list, one.Pod)
		}
	}
	return list
}

func isRunning(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !podfacts.Ended(pod) }

// without returns the Pods that are not among others.
func without(pods, others []*corev1.Pod) (rest []*corev1.Pod) {
	uids := podUIDs(others)
	for _, pod := range pods {
		if !slices.Contains(uids, pod.UID) {
			rest = append(rest, pod)
		}
	}
	return rest
}

// askBudgets returns which PodDisruptionBudget, as the API server has them, does not allow that all of the Pods are
// stopped; empty if all do. The API for evictions answers for one Pod at a time: a gang of which it refuses the second
// one would be torn apart.
func (e *Evictor) askBudgets(ctx context.Context, pods []*corev1.Pod) (refused string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	listed := map[string]bool{}
	var list []*policyv1.PodDisruptionBudget
	for _, pod := range pods {
		if listed[pod.Namespace] {
			continue
		}
		listed[pod.Namespace] = true
		found, err := e.sources.Client.PolicyV1().PodDisruptionBudgets(pod.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", fmt.Errorf("reading PodDisruptionBudgets: %w", err)
		}
		for i := range found.Items {
			list = append(list, &found.Items[i])
		}
	}
	budgets := disruption.NewBudgets(list)
	e.budgets.pending.SubtractOthers(budgets, podUIDs(pods), e.sources.Clock.Now())
	return budgets.Exceeded(pods), nil
}

// stopAll stops Pods. If one can't be stopped now, no further gang is begun.
func (e *Evictor) stopAll(ctx context.Context, preemptor *corev1.Pod, victims []*corev1.Pod, taken *preemption.Queues) {
	var spared []*corev1.Pod
	begun := map[string]bool{}
	for _, victim := range victims {
		gang := cmp.Or(e.sources.Registry.GangOf(victim.UID), string(victim.UID))
		if len(spared) > 0 && !begun[gang] {
			spared = append(spared, victim)
			continue
		}
		switch stopped, err := e.stop(ctx, victim, causeFor(preemptor, victim, taken)); {
		case err != nil:
			e.sources.Logger.Error(err, "Preempting a Pod failed", "pod", klog.KObj(victim), "for", klog.KObj(preemptor))
			spared = append(spared, victim)
		case stopped:
			begun[gang] = true
			e.budgets.pending.Deleted(victim.UID, e.sources.Clock.Now())
			e.sources.Count()
			e.reportEviction(preemptor, victim, taken)
		default:
			e.forget([]*corev1.Pod{victim})
		}
	}
	if len(spared) > 0 {
		e.letStay(preemptor, spared)
	}
}

// letStay lets victims stay for now; the next attempt decides again.
func (e *Evictor) letStay(preemptor *corev1.Pod, victims []*corev1.Pod) {
	e.forget(victims)
	e.sources.Activate([]*corev1.Pod{preemptor})
}

// forget records that Pods are not stopped after all.
func (e *Evictor) forget(victims []*corev1.Pod) {
	e.sources.Do(e.sources.Registry.MarkTerminating(podUIDs(victims), false))
	e.budgets.pending.Cancel(podUIDs(victims))
}

// stop deletes a Pod with the condition that it is preempted, in a version in which it has not ended. stopped is false
// if there is nothing to stop any more.
func (e *Evictor) stop(ctx context.Context, victim *corev1.Pod, cause string) (stopped bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	for range maxStops {
		err = e.stopVersion(ctx, victim, cause)
		switch {
		case podwrite.IsGone(err):
			return false, nil
		case !apierrors.IsConflict(err):
			return err == nil, err
		}
		now, getErr := e.sources.Client.CoreV1().Pods(victim.Namespace).Get(ctx, victim.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(getErr):
			return false, nil
		case getErr != nil:
			return false, fmt.Errorf("reading it: %w", getErr)
		case now.UID != victim.UID || !isRunning(now):
			return false, nil
		}
		victim = now
	}
	return false, err
}

// stopVersion deletes a version of a Pod.
func (e *Evictor) stopVersion(ctx context.Context, victim *corev1.Pod, cause string) error {
	pods := e.sources.Client.CoreV1().Pods(victim.Namespace)
	patch, err := disruptionPatch(victim, cause, e.sources.Clock.Now())
	if err != nil {
		return err
	}
	marked, err := pods.Patch(ctx, victim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("marking it: %w", err)
	}
	if err := pods.Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: podwrite.SameVersion(marked)}); err != nil {
		return fmt.Errorf("deleting it: %w", err)
	}
	return nil
}

// reportEviction tells a victim's owner why it was stopped.
func (e *Evictor) reportEviction(preemptor, victim *corev1.Pod, taken *preemption.Queues) {
	var related runtime.Object
	if preemptor.Namespace == victim.Namespace {
		related = preemptor
	}
	if isReclaimed(victim, taken) {
		e.sources.Events.Eventf(victim, related, corev1.EventTypeNormal, "Reclaimed", "Preempting", "Stopped: %s", causeFor(preemptor, victim, taken))
		return
	}
	e.sources.Events.Eventf(victim, related, corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted: %s", causeFor(preemptor, victim, taken))
}

func isReclaimed(victim *corev1.Pod, taken *preemption.Queues) (reclaimed bool) {
	if taken != nil {
		_, reclaimed = taken.Borrowed(victim)
	}
	return reclaimed
}

// causeFor says for whom a victim has to leave, to its owner: nobody of another namespace is named.
func causeFor(preemptor, victim *corev1.Pod, taken *preemption.Queues) string {
	if isReclaimed(victim, taken) {
		borrowed, _ := taken.Borrowed(victim)
		owner := "work in no queue"
		if borrowed.Queue != queueing.NoQueue {
			owner = "queue " + borrowed.Queue
		}
		return owner + " had borrowed its GPUs, which another queue is guaranteed and needs now"
	}
	name := "a Pod of another namespace"
	if task := preemptor.Labels[v1.LabelTask]; preemptor.Namespace == victim.Namespace {
		if name = "Pod " + preemptor.Name; task != "" {
			name = "task " + task
		}
	}
	return fmt.Sprintf("%s (priority %d) needs its place", name, schedulingv1.PodPriority(preemptor))
}

// disruptionPatch returns the patch of a victim's status that shows controllers that it
// did not fail: the condition that kube-scheduler sets, with the cause. It applies to this version of the Pod only:
// in a later one it may have ended.
func disruptionPatch(victim *corev1.Pod, cause string, now time.Time) ([]byte, error) {
	return podwrite.Patch{Metadata: podwrite.Metadata{UID: victim.UID, ResourceVersion: victim.ResourceVersion}, Status: &podwrite.Status{Conditions: []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, Message: cause,
		LastTransitionTime: metav1.NewTime(now),
	}}}}.Bytes()
}

// EvictPartial evicts the Pods of incomplete gangs in the background, unless others are being evicted.
func (e *Evictor) EvictPartial(ctx context.Context, stuck func() []*corev1.Pod) {
	if e.sources.MayAct() && e.evictingPartial.CompareAndSwap(false, true) {
		go func() {
			defer e.evictingPartial.Store(false)
			e.evictPartial(ctx, stuck())
		}()
	}
}

// evictPartial evicts the Pods of gangs that were incomplete for some time, and hold places to no use. All of
// them stop counting before the first one is evicted: otherwise members that wait would
// take the places of the first ones, and the gang would stay incomplete.
// PodDisruptionBudgets are respected.
func (e *Evictor) evictPartial(ctx context.Context, stuck []*corev1.Pod) {
	e.sources.Registry.MarkTerminating(podUIDs(stuck), true)
	for _, one := range stuck {
		e.sources.Events.Eventf(one, nil, corev1.EventTypeWarning, "PartialGang", "Evicting", "Other Pods of its gang could not be placed for %s", e.sources.Partial)
		if err := e.evict(ctx, one); err != nil {
			e.sources.Do(e.sources.Registry.MarkTerminating([]types.UID{one.UID}, false))
			e.sources.Logger.Info("A Pod of an incomplete gang stays for now", "pod", klog.KObj(one), "err", err)
		}
	}
}

func (e *Evictor) evict(ctx context.Context, one *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	err := e.sources.Client.CoreV1().Pods(one.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: one.Namespace, Name: one.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(one.UID))},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func podUIDs(pods []*corev1.Pod) []types.UID {
	uids := make([]types.UID, len(pods))
	for i, pod := range pods {
		uids[i] = pod.UID
	}
	return uids
}

// groupSet are names of groups. Its zero value is empty.
type groupSet struct {
	mu    sync.Mutex
	names map[string]bool
}

func (s *groupSet) add(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[group] = true
}

func (s *groupSet) remove(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, group)
}

func (s *groupSet) has(group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[group]
}
