// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// uncordons is how often a node is cordoned and uncordoned.
	uncordons = 10
	// soon is within what time who waits for a node starts on it.
	soon = 5 * time.Second
)

// Kubernetes removes the taint of a cordon a moment after spec.unschedulable is cleared, and an attempt may come
// between the two.
func TestWhoWaitsForACordonedNodeStartsWhenItIsUncordoned(t *testing.T) { //nolint:paralleltest // whatever ends elsewhere would wake it
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 8})
	for i := range uncordons {
		g := gang{name: fmt.Sprintf("waits-%d", i), gpus: 8, node: "n"}
		if i%2 == 1 {
			g.pods, g.gpus = 2, 4
		}
		s.patchNode("n", `{"spec": {"unschedulable": true}}`)
		s.eventually("the node is cordoned", func() (bool, string) { return s.isCordoned("n") })
		s.createPods(g)
		s.waitForRefusal(g.name, "is cordoned")
		s.patchNode("n", `{"spec": {"unschedulable": null}}`)
		s.within(soon, g.name+" has its node", func() (bool, string) {
			pods := s.ledger.podsOf(g.name)
			return countPods(pods, isHolding) == max(1, g.pods), describe(pods)
		})
		s.deleteGang(g.name)
	}
}

// isCordoned reports whether a node is, and has the taint as well.
func (s *suite) isCordoned(name string) (cordoned bool, is string) {
	node, err := s.kube.CoreV1().Nodes().Get(s.Context(), s.node(name), metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, taint := range node.Spec.Taints {
		cordoned = cordoned || taint.Key == corev1.TaintNodeUnschedulable
	}
	return cordoned, fmt.Sprint(node.Spec)
}

// Such as diagnostics of a node that is suspected.
func TestWhoToleratesACordonStartsOnTheNode(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addNode(machine{name: "n", gpus: 8})
	s.patchNode("n", `{"spec": {"unschedulable": true}}`)
	s.eventually("the node is cordoned", func() (bool, string) { return s.isCordoned("n") })
	tolerates := func(pod *corev1.Pod) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists})
	}
	s.createAll(gang{name: "alone", gpus: 2}, tolerates)
	s.createAll(gang{name: "together", pods: 2, gpus: 2}, tolerates)
	s.waitForBound(1, "alone")
	s.waitForBound(2, "together")
}
