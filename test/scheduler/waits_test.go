// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// waitForTask waits until a task is in a phase.
func (s *suite) waitForTask(name string, phase v1.GPUTaskPhase) *v1.GPUTask {
	s.Helper()
	var task *v1.GPUTask
	s.eventually(fmt.Sprintf("GPUTask %s is %s", name, phase), func() (bool, string) {
		task = s.getTask(name)
		return task.Status.Phase == phase, fmt.Sprintf("%s: %s", task.Status.Phase, task.Status.Message)
	})
	return task
}

// waitForBound waits until this many Pods of each gang are bound.
func (s *suite) waitForBound(count int, gangs ...string) {
	s.Helper()
	for _, name := range gangs {
		s.eventually(fmt.Sprintf("%d Pods of %s have nodes", count, name), func() (bool, string) {
			pods := s.ledger.podsOf(name)
			bound := countPods(pods, isHolding)
			return bound == count, fmt.Sprintf("%d: %s", bound, describe(pods))
		})
	}
}

// waitForEnd waits until this many Pods of each gang have succeeded.
func (s *suite) waitForEnd(count int, gangs ...string) {
	s.Helper()
	for _, name := range gangs {
		s.eventually(fmt.Sprintf("%d Pods of %s have succeeded", count, name), func() (bool, string) {
			pods := s.ledger.podsOf(name)
			ended := countPods(pods, hasSucceeded)
			return ended == count, fmt.Sprintf("%d: %s", ended, describe(pods))
		})
	}
}

// waitForRefusal waits until a Pod of a gang reports why it is unschedulable, and returns
// the message. Exactly one of the Pods reports it.
func (s *suite) waitForRefusal(name, text string) string {
	s.Helper()
	message := ""
	s.eventually(fmt.Sprintf("a Pod of %s says %q", name, text), func() (bool, string) {
		var told []string
		for _, pod := range s.ledger.podsOf(name) {
			if refusal := refusalOf(pod); refusal != "" {
				told = append(told, refusal)
			}
		}
		if len(told) > 1 {
			s.Fatalf("%d Pods of %s say why it waits: %q", len(told), name, told)
		}
		message = strings.Join(told, "")
		return message != "" && strings.Contains(message, text), fmt.Sprintf("%q", message)
	})
	return message
}

// refusalOf returns the scheduler's message about why a Pod is unschedulable.
func refusalOf(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

func countPods(pods []*corev1.Pod, is func(*corev1.Pod) bool) int {
	count := 0
	for _, pod := range pods {
		if is(pod) {
			count++
		}
	}
	return count
}

// describe lists Pods for messages.
func describe(pods []*corev1.Pod) string {
	var texts []string
	for _, pod := range pods {
		text := fmt.Sprintf("%s %s on %q", pod.Name, pod.Status.Phase, pod.Spec.NodeName)
		if pod.DeletionTimestamp != nil {
			text += " ending"
		}
		if refusal := refusalOf(pod); refusal != "" {
			text += ": " + refusal
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// nodesOf returns the nodes of the bound Pods of a gang, sorted, without the test's
// prefix.
func (s *suite) nodesOf(gang string) []string {
	var nodes []string
	for _, pod := range s.ledger.podsOf(gang) {
		if isHolding(pod) {
			nodes = append(nodes, strings.TrimPrefix(pod.Spec.NodeName, s.namespace+"-"))
		}
	}
	slices.Sort(nodes)
	return nodes
}

// hasSucceeded reports whether a Pod has succeeded.
func hasSucceeded(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }
