// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// A node is open to a Pod in the engine exactly if the Pod tolerates what closes it: a cordon, also before or after its
// taint, and that the node is not ready, also before its taint.
func TestClosedNodesAreOpenToWhoToleratesThat(t *testing.T) {
	t.Parallel()
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	tainted := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	ready := func(status corev1.ConditionStatus) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		}
	}
	const unschedulable, notReady, unreachable = corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable
	tests := map[string]struct {
		node *corev1.Node
		// tolerates are what a Pod has to tolerate to go there; none for an open node.
		tolerates []string
	}{
		"an open node":                           {node(ready(corev1.ConditionTrue)), nil},
		"a cordoned node":                        {node(ready(corev1.ConditionTrue), cordoned, tainted(unschedulable)), []string{unschedulable}},
		"a cordon before its taint":              {node(ready(corev1.ConditionTrue), cordoned), []string{unschedulable}},
		"a cordon's taint after it":              {node(ready(corev1.ConditionTrue), tainted(unschedulable)), []string{unschedulable}},
		"a node that is not ready":               {node(ready(corev1.ConditionFalse), tainted(notReady)), []string{notReady}},
		"one that is not ready before its taint": {node(ready(corev1.ConditionFalse)), []string{notReady}},
		"one that has never been ready":          {node(), []string{notReady}},
		"one that is not reached":                {node(ready(corev1.ConditionUnknown)), []string{unreachable}},
		"one that is cordoned and not ready":     {node(ready(corev1.ConditionFalse), cordoned), []string{unschedulable, notReady}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tolerated := range [][]string{nil, {unschedulable}, {notReady}, {unreachable}, {unschedulable, notReady}} {
				pod := &corev1.Pod{}
				want := true
				for _, key := range tolerated {
					pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
				}
				for _, key := range test.tolerates {
					want = want && slices.Contains(tolerated, key)
				}
				closed := TaintUnlessReady(test.node)
				shape, err := Shape(pod)
				if err != nil {
					t.Fatal(err)
				}
				view := NodeView{}
				view.Track(&shape)
				cluster := view.Cluster(packing.New(packing.Default()), []*corev1.Node{closed}, nil)
				reason, err := cluster.Fit("n", cluster.Request(shape))
				if got := reason == placement.Fits; err != nil || got != want || !got && !reason.Closed() {
					t.Errorf("to a Pod that tolerates %v: the node %s, error %v, want it open: %t", tolerated, reason, err, want)
				}
				if got := !ClosedTo(closed, pod); got != want {
					t.Errorf("to a Pod that tolerates %v: open %t, want %t", tolerated, got, want)
				}
			}
		})
	}
}
