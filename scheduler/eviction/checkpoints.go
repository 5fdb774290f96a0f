// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/checkpoint"
	"falldio.github.io/gpu-controller/pkg/podwrite"
	"falldio.github.io/gpu-controller/pkg/preemption"
)

// checkpointPoll is how often to look whether victims have saved their work.
const checkpointPoll = time.Second

// checkpointTime is how long victims may take at most to save their work.
func checkpointTime(victims []*corev1.Pod, taken *preemption.Queues) (longest time.Duration) {
	for _, victim := range victims {
		longest = max(longest, checkpoint.Timeout(victim), noticeOf(taken, victim))
	}
	return longest
}

// noticeOf returns how long a victim goes on after it was told because its GPUs are taken back.
func noticeOf(taken *preemption.Queues, victim *corev1.Pod) time.Duration {
	if taken == nil {
		return 0
	}
	borrowed, _ := taken.Borrowed(victim)
	return borrowed.Notice
}

// awaitCheckpoints waits until victims have saved their work, or had the time for it, and asks them
// to do so. It returns false if they may stay, because the preemptor no longer waits for a place.
func (e *Evictor) awaitCheckpoints(ctx context.Context, preemptor *corev1.Pod, victims []*corev1.Pod, taken *preemption.Queues) (stillNeeded bool, err error) {
	longest := checkpointTime(victims, taken)
	if longest == 0 {
		return true, nil
	}
	until := e.sources.Clock.Now().Add(longest)
	asked := map[types.UID]bool{} // the cache may not show it yet
	for {
		now := e.sources.Clock.Now()
		ask, wait := checkpoint.Before(e.present(victims, taken), now)
		for _, victim := range ask {
			if asked[victim.UID] {
				continue
			}
			if err := e.askForCheckpoint(ctx, preemptor, victim, max(checkpoint.Timeout(victim), noticeOf(taken, victim)), now); err != nil {
				return true, err
			}
			asked[victim.UID] = true
		}
		if wait = min(wait, until.Sub(now)); wait <= 0 {
			return true, nil
		}
		select {
		case <-e.sources.Clock.After(min(wait, checkpointPoll)):
		case <-ctx.Done():
			return true, ctx.Err()
		}
		if !e.waits(preemptor) {
			return false, nil
		}
	}
}

// present returns the present state of Pods, without those that are gone.
func (e *Evictor) present(pods []*corev1.Pod, taken *preemption.Queues) (list []checkpoint.Pod) {
	lister := e.sources.Informers.Core().V1().Pods().Lister()
	for _, pod := range pods {
		if known, err := lister.Pods(pod.Namespace).Get(pod.Name); err == nil && known.UID == pod.UID {
			list = append(list, checkpoint.Pod{Pod: known, Notice: noticeOf(taken, pod)})
		}
	}
	return list
}

// waits reports whether a Pod still has neither a node nor a seat.
func (e *Evictor) waits(pod *corev1.Pod) bool {
	if e.sources.Registry.Placing(pod.UID) {
		return false
	}
	known := e.present([]*corev1.Pod{pod}, nil)
	return len(known) == 1 && known[0].Spec.NodeName == "" && known[0].DeletionTimestamp == nil
}

// askForCheckpoint asks a victim to save its work. The subresource status is the only part of a Pod
// that a scheduler may change.
func (e *Evictor) askForCheckpoint(ctx context.Context, preemptor, victim *corev1.Pod, within time.Duration, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	patch, err := checkpoint.Request(victim.UID, now).Bytes()
	if err != nil {
		return err
	}
	_, err = e.sources.Client.CoreV1().Pods(victim.Namespace).Patch(ctx, victim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !podwrite.IsGone(err) {
		return fmt.Errorf("asking it for a checkpoint: %w", err)
	}
	e.sources.Events.Eventf(victim, preemptor, corev1.EventTypeNormal, "CheckpointRequested", "Preempting",
		"Asked to save its work within %v: it is about to be preempted by Pod %s", within, klog.KObj(preemptor))
	return nil
}
