// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// having adds a resource to what a node lists.
func having(name corev1.ResourceName, amount string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Allocatable[name] = resource.MustParse(amount) }
}

func TestTheOtherResourcesOfAPod(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod  *corev1.Pod
		want placement.Amounts
	}{
		"none":                                  {pod("cpu=1,memory=1Gi,gpu=2"), nil},
		"an extended resource":                  {pod("rdma/hca=2", "rdma/hca=1"), placement.Amounts{{Resource: "rdma/hca", Value: 3}}},
		"NVIDIA's name for GPUs is none":        {pod("nvidia.com/gpu=2"), nil},
		"GPUs of another vendor's plugin":       {pod("amd.com/gpu=2"), placement.Amounts{{Resource: "amd.com/gpu", Value: 2}}},
		"several, sorted by name":               {pod("rdma/hca=1,hugepages-2Mi=4Mi"), placement.Amounts{{Resource: "hugepages-2Mi", Value: 4 << 20}, {Resource: "rdma/hca", Value: 1}}},
		"storage is rounded up":                 {pod("ephemeral-storage=1500m"), placement.Amounts{{Resource: "ephemeral-storage", Value: 2}}},
		"none of a resource":                    {pod("rdma/hca=0"), nil},
		"more than any node has":                {pod("rdma/hca=9E"), placement.Amounts{{Resource: "rdma/hca", Value: placement.MaxAmount}}},
		"the most that an init container needs": {withInit(pod("rdma/hca=1"), "rdma/hca=3"), placement.Amounts{{Resource: "rdma/hca", Value: 3}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shape, err := Shape(test.pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, shape.Others); diff != "" {
				t.Errorf("requested (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, Use(test.pod, nil).Others); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheOtherResourcesOfANode(t *testing.T) {
	t.Parallel()
	adapters, storage := having("rdma/hca", "4"), having("ephemeral-storage", "1500m")
	tests := map[string]struct {
		requests string
		node     *corev1.Node
		want     placement.Amounts
	}{
		"nobody asks for any":             {"cpu=1", node(adapters, storage), nil},
		"one is asked for":                {"rdma/hca=1", node(adapters, storage), placement.Amounts{{Resource: "rdma/hca", Value: 4}}},
		"storage is rounded down":         {"ephemeral-storage=1", node(adapters, storage), placement.Amounts{{Resource: "ephemeral-storage", Value: 1}}},
		"the kubelet offers none now":     {"rdma/hca=1", node(having("rdma/hca", "0")), nil},
		"no node lists storage":           {"ephemeral-storage=1", node(), nil},
		"no node lists it: not counted":   {"rdma/hca=1", node(), placement.Amounts{{Resource: "rdma/hca", Value: placement.MaxAmount}}},
		"only what has a meaning of ours": {"gpu=1,cpu=1,memory=1", node(), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shape, err := Shape(pod(test.requests))
			if err != nil {
				t.Fatal(err)
			}
			view := NodeView{}
			view.Track(&shape)
			view.observe(test.node)
			described, _, err := view.Node(test.node)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, described.Others); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}
