// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAnEventSaysWhatThePodSays: kube-scheduler takes messages for formats. A campaign of test/chaos
// had Events that said "60%!o(MISSING)f a GPU".
func TestAnEventSaysWhatThePodSays(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	name := s.namespace
	s.startScheduler(name, arguments{})
	s.addNodes(machines(1, machine{name: "n", gpus: 1})...)
	s.createPods(gang{name: "first", percent: 60, scheduler: name})
	s.waitForBound(1, "first")
	s.createPods(gang{name: "second", percent: 60, scheduler: name})
	said := s.waitForRefusal("second", "60 percent of a GPU")
	s.eventually("an Event says the same", func() (bool, string) {
		events, err := s.kube.CoreV1().Events(s.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedScheduling"})
		if err != nil {
			return false, err.Error()
		}
		messages := []string{}
		for i := range events.Items {
			messages = append(messages, events.Items[i].Message)
			if events.Items[i].Type == corev1.EventTypeWarning && events.Items[i].Message == said {
				return true, ""
			}
		}
		return false, fmt.Sprintf("the Pod says %q, Events %q", said, strings.Join(messages, "\n"))
	})
}
