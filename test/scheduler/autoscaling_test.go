// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestAutoscalersSeeEveryMemberOfAGangThatWaits plays the autoscaler: it adds as many nodes
// as there are Pods with the condition that Cluster Autoscaler and Karpenter read.
func TestAutoscalersSeeEveryMemberOfAGangThatWaits(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	name := s.namespace
	s.startScheduler(name, arguments{"reportUnschedulableMembers": true})
	s.addNode(machine{name: "full", gpus: 1})
	s.createPods(gang{name: "train", pods: 4, gpus: 2, scheduler: name})
	needRoom := 0
	s.eventually("all members need room", func() (bool, string) {
		pods := s.ledger.podsOf("train")
		needRoom = countPods(pods, needsRoom)
		return needRoom == 4, describe(pods)
	})
	for i := range needRoom {
		s.addNode(machine{name: fmt.Sprint("new-", i), gpus: 2})
	}
	s.waitForBound(4, "train")
	s.eventually("none needs room any more", func() (bool, string) {
		pods := s.ledger.podsOf("train")
		return countPods(pods, isScheduled) == 4 && countPods(pods, needsRoom) == 0, describe(pods)
	})
}

// needsRoom reports whether autoscalers add a node for a Pod.
func needsRoom(pod *corev1.Pod) bool {
	for _, one := range pod.Status.Conditions {
		if one.Type == corev1.PodScheduled && one.Status == corev1.ConditionFalse && one.Reason == "Unschedulable" {
			return pod.Spec.NodeName == "" && pod.Status.NominatedNodeName == "" && pod.DeletionTimestamp == nil
		}
	}
	return false
}

// isScheduled reports whether a Pod has the condition of one that has a node.
func isScheduled(pod *corev1.Pod) bool {
	for _, one := range pod.Status.Conditions {
		if one.Type == corev1.PodScheduled {
			return one.Status == corev1.ConditionTrue
		}
	}
	return false
}
