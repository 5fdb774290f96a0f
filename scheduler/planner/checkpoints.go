// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

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
)

// checkpointPoll is how often to look whether victims have saved their work.
const checkpointPoll = time.Second

// checkpointTime is how long victims may take at most to save their work.
func checkpointTime(victims []*corev1.Pod) (longest time.Duration) {
	for _, victim := range victims {
		longest = max(longest, checkpoint.Timeout(victim))
	}
	return longest
}

// awaitCheckpoints waits until victims have saved their work, or had the time for it, and asks them
// to do so. It returns false if they may stay, because the preemptor no longer waits for a place.
func (p *Planner) awaitCheckpoints(ctx context.Context, preemptor *corev1.Pod, victims []*corev1.Pod) (stillNeeded bool, err error) {
	longest := checkpointTime(victims)
	if longest == 0 {
		return true, nil
	}
	until := p.clock.Now().Add(longest)
	asked := map[types.UID]bool{} // the cache may not show it yet
	for {
		now := p.clock.Now()
		ask, wait := checkpoint.Before(p.present(victims), now)
		for _, victim := range ask {
			if asked[victim.UID] {
				continue
			}
			if err := p.askForCheckpoint(ctx, preemptor, victim, now); err != nil {
				return true, err
			}
			asked[victim.UID] = true
		}
		if wait = min(wait, until.Sub(now)); wait <= 0 {
			return true, nil
		}
		select {
		case <-p.clock.After(min(wait, checkpointPoll)):
		case <-ctx.Done():
			return true, ctx.Err()
		}
		if !p.waits(preemptor) {
			return false, nil
		}
	}
}

// present returns the present state of Pods, without those that are gone.
func (p *Planner) present(pods []*corev1.Pod) (list []checkpoint.Pod) {
	lister := p.handle.SharedInformerFactory().Core().V1().Pods().Lister()
	for _, pod := range pods {
		if known, err := lister.Pods(pod.Namespace).Get(pod.Name); err == nil && known.UID == pod.UID {
			list = append(list, checkpoint.Pod{Pod: known})
		}
	}
	return list
}

// waits reports whether a Pod still has no node.
func (p *Planner) waits(pod *corev1.Pod) bool {
	known := p.present([]*corev1.Pod{pod})
	return len(known) == 1 && known[0].Spec.NodeName == "" && known[0].DeletionTimestamp == nil
}

// askForCheckpoint asks a victim to save its work. The subresource status is the only part of a Pod
// that a scheduler may change.
func (p *Planner) askForCheckpoint(ctx context.Context, preemptor, victim *corev1.Pod, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, evictLimit)
	defer cancel()
	patch, err := checkpoint.Request(victim.UID, now).Bytes()
	if err != nil {
		return err
	}
	_, err = p.handle.ClientSet().CoreV1().Pods(victim.Namespace).Patch(ctx, victim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !podwrite.IsGone(err) {
		return fmt.Errorf("asking it for a checkpoint: %w", err)
	}
	p.handle.EventRecorder().WithLogger(p.logger).Eventf(victim, preemptor, corev1.EventTypeNormal, "CheckpointRequested", "Preempting",
		"Asked to save its work within %v: it is about to be preempted by Pod %s", checkpoint.Timeout(victim), klog.KObj(preemptor))
	return nil
}
