// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestResourcesThatAreWithheldAreNotGivenToOthers(t *testing.T) {
	t.Parallel()
	const adapters, storage = "rdma/hca", "ephemeral-storage"
	node := &corev1.Node{}
	node.Status.Allocatable = corev1.ResourceList{adapters: resource.MustParse("4"), storage: resource.MustParse("100")}
	info := framework.NewNodeInfo()
	info.SetNode(node)
	pod := &corev1.Pod{}
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{adapters: resource.MustParse("1"), storage: resource.MustParse("30")},
	}}}
	info.AddPod(pod)
	held := placement.NewAmounts(map[string]int64{adapters: 1, storage: 20})
	tests := map[string]struct {
		requests map[string]int64
		want     bool
	}{
		"what is left is enough":        {map[string]int64{adapters: 2, storage: 50}, false},
		"an adapter that is withheld":   {map[string]int64{adapters: 3}, true},
		"storage that is withheld":      {map[string]int64{storage: 51}, true},
		"a Pod that needs none of them": {map[string]int64{"other/device": 9}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := lacksOther(info, held, placement.NewAmounts(test.requests)); got != test.want {
				t.Errorf("too little is left: %t, want %t", got, test.want)
			}
		})
	}
}
