// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deviceDriver is the driver of the devices in these tests. Nothing runs for it: only the
// scheduler looks at its objects.
const deviceDriver = "devices.example.com"

// addDevice publishes a device of a node.
func (s *suite) addDevice(node string) {
	s.Helper()
	name := s.node(node)
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: deviceDriver, NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "device"}},
	}}
	if _, err := s.kube.ResourceV1().ResourceSlices().Create(s.Context(), slice, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := s.kube.ResourceV1().ResourceSlices().Delete(context.WithoutCancel(s.Context()), name, metav1.DeleteOptions{}); err != nil {
			s.Errorf("deleting a ResourceSlice: %v", err)
		}
	})
}

// claimDevice creates a claim for a device that is allocated on a node already, and used by
// nobody.
func (s *suite) claimDevice(name, node string) {
	s.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", deviceDriver)}}},
	}}
	if _, err := s.kube.ResourceV1().DeviceClasses().Create(s.Context(), class, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := s.kube.ResourceV1().DeviceClasses().Delete(context.WithoutCancel(s.Context()), class.Name, metav1.DeleteOptions{}); err != nil {
			s.Errorf("deleting a DeviceClass: %v", err)
		}
	})
	claims := s.kube.ResourceV1().ResourceClaims(s.namespace)
	claim, err := claims.Create(s.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{resourcev1.Finalizer}},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class.Name, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	claim.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{
			Request: "one", Driver: deviceDriver, Pool: s.node(node), Device: "device",
		}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{s.node(node)}}},
		}}},
	}
	if _, err := claims.UpdateStatus(s.Context(), claim, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { // nobody else removes the finalizer
		_, err := claims.Patch(context.WithoutCancel(s.Context()), name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			s.Errorf("removing a finalizer: %v", err)
		}
	})
}

// TestAClaimThatIsStuckToAFullNodeIsReleased: its device was allocated on a node for a Pod
// that was not placed there in the end. Another node has a device, too, and GPUs.
func TestAClaimThatIsStuckToAFullNodeIsReleased(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addDevice("full")
	s.addDevice("free")
	s.claimDevice("stuck", "full")
	s.addNodes(machine{name: "full", gpus: 1}, machine{name: "free", gpus: 1})
	s.createAll(gang{name: "first"}, func(pod *corev1.Pod) { s.on(pod, "full") })
	s.waitForBound(1, "first")
	s.createAll(gang{name: "user"}, func(pod *corev1.Pod) {
		name := "stuck"
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
		pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "device"}}
	})
	s.waitForBound(1, "user")
	if nodes := s.nodesOf("user"); nodes[0] != "free" {
		t.Errorf("it is on node %s", nodes[0])
	}
}
