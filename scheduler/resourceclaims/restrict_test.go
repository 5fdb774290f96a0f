// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// names returns the names of the devices in slices, by slice.
func names(slices []*resourcev1.ResourceSlice) map[string][]string {
	all := map[string][]string{}
	for _, slice := range slices {
		all[slice.Name] = []string{}
		for i := range slice.Spec.Devices {
			all[slice.Name] = append(all[slice.Name], slice.Spec.Devices[i].Name)
		}
	}
	return all
}

func twoNodes() []*resourcev1.ResourceSlice {
	node := func(name string) *resourcev1.ResourceSlice {
		return sliceOf(name, name, deviceOf("g0", map[string]string{"uuid": name + "-0"}), deviceOf("g1", map[string]string{"uuid": name + "-1"}),
			deviceOf("g2", map[string]string{"uuid": name + "-2"}), deviceOf("nic", map[string]string{"mac": "00:00"}))
	}
	network := sliceOf("network", "", deviceOf("fabric", nil))
	network.Spec.NodeName = nil
	return []*resourcev1.ResourceSlice{node("a"), node("b"), network}
}

func TestAnAllocatorIsShown(t *testing.T) {
	t.Parallel()
	all := []string{"g0", "g1", "g2", "nic"}
	allocated := sets.New(structured.MakeDeviceID(driver, "a", "g2"))
	tests := map[string]struct {
		shown []*resourcev1.ResourceSlice
		want  map[string][]string
	}{
		"of the node of a plan, its GPUs, those in use, and what is no GPU": {
			Only(twoNodes(), Places{"a": sets.New("a-1")}, allocated.Has),
			map[string][]string{"a": {"g1", "g2", "nic"}, "b": all, "network": {"fabric"}},
		},
		"of a node on which nothing is planned, no free GPU": {
			Only(twoNodes(), Places{"b": nil}, allocated.Has),
			map[string][]string{"a": all, "b": {"nic"}, "network": {"fabric"}},
		},
		"all but the free GPUs that are kept for others": {
			Without(twoNodes(), Places{"a": sets.New("a-0", "a-2"), "b": sets.New("a-1")}, allocated.Has),
			map[string][]string{"a": {"g1", "g2", "nic"}, "b": all, "network": {"fabric"}},
		},
		"the devices of one node, and those of none": {
			OnNode(twoNodes(), "b"), map[string][]string{"b": all, "network": {"fabric"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, names(test.shown)); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRestrictingDoesNotChangeWhatOthersShare(t *testing.T) {
	t.Parallel()
	shared := twoNodes()
	Only(shared, Places{"a": sets.New("a-1")}, sets.New[structured.DeviceID]().Has)
	OnNode(shared, "b")
	if diff := cmp.Diff(names(twoNodes()), names(shared)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}
