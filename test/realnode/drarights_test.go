// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/node"
)

// TestTheDriverWritesTheSlicesOfItsNodeOnly uses the driver's token as an attacker would who has
// taken over the node.
func TestTheDriverWritesTheSlicesOfItsNodeOnly(t *testing.T) {
	s := newScene(t)
	s.giveOutOverDRA()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfigOf("dradriver"))
	if err != nil {
		t.Fatal(err)
	}
	stolen, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := stolen.ResourceV1().ResourceSlices(), s.node.Kube.ResourceV1().ResourceSlices()
	others := map[string]*resourceapi.ResourceSlice{
		"of another node":   sliceOf("other", v1.DRADriver, "other"),
		"of another pool":   sliceOf(node.Name, v1.DRADriver, "other"),
		"of another driver": sliceOf(node.Name, "gpu.nvidia.com", node.Name),
	}
	for what, slice := range others {
		_, err := mine.Create(t.Context(), slice, metav1.CreateOptions{})
		isDenied(t, "creating a slice "+what, err)
		there, err := theirs.Create(t.Context(), slice, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		changed := there.DeepCopy()
		changed.Spec.Devices = nil
		_, err = mine.Update(t.Context(), changed, metav1.UpdateOptions{})
		isDenied(t, "changing a slice "+what, err)
		isDenied(t, "deleting a slice "+what, mine.Delete(t.Context(), there.Name, metav1.DeleteOptions{}))
		if err := theirs.Delete(t.Context(), there.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	_, err = stolen.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	isDenied(t, "listing Pods", err)
	_, err = stolen.ResourceV1().ResourceClaims(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	isDenied(t, "listing claims", err)
	own := sliceOf(node.Name, v1.DRADriver, node.Name)
	created, err := mine.Create(t.Context(), own, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || created == nil {
		t.Errorf("its own slice is refused: %v", err)
	}
}

func sliceOf(node, driver, pool string) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "attack-"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node, Pool: resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{Name: "trap"}},
		},
	}
}

// isDenied fails the test unless an error says that something is forbidden.
func isDenied(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("%s: %v", what, err)
	}
}
