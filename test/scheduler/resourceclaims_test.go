// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

// deviceDriver is the driver of the devices in these tests. Nothing runs for it: only the
// scheduler looks at its objects.
const deviceDriver = "devices.example.com"

// addDevice publishes a device of a node; with a UUID, it is a GPU.
func (s *suite) addDevice(node, uuid string) {
	s.Helper()
	name := s.node(node)
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: deviceDriver, NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "device"}},
	}}
	if uuid != "" {
		slice.Spec.Devices[0].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": {StringValue: &uuid}}
	}
	if _, err := s.kube.ResourceV1().ResourceSlices().Create(s.Context(), slice, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := s.kube.ResourceV1().ResourceSlices().Delete(context.WithoutCancel(s.Context()), name, metav1.DeleteOptions{}); err != nil {
			s.Errorf("deleting a ResourceSlice: %v", err)
		}
	})
}

// addDeviceClass adds the class of all devices in these tests.
func (s *suite) addDeviceClass() {
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
}

// createClaim creates a claim for a device.
func (s *suite) createClaim(name string) *resourcev1.ResourceClaim {
	s.Helper()
	claim, err := s.kube.ResourceV1().ResourceClaims(s.namespace).Create(s.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{resourcev1.Finalizer}},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: s.namespace, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { // nobody else removes the finalizer
		_, err := s.kube.ResourceV1().ResourceClaims(s.namespace).Patch(context.WithoutCancel(s.Context()), name,
			types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil {
			s.Errorf("removing a finalizer: %v", err)
		}
	})
	return claim
}

// claimDevice creates a claim for a device that is allocated on a node already, and used by
// nobody.
func (s *suite) claimDevice(name, node string) {
	s.Helper()
	claim := s.createClaim(name)
	claim.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{
			Request: "one", Driver: deviceDriver, Pool: s.node(node), Device: "device",
		}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{s.node(node)}}},
		}}},
	}
	if _, err := s.kube.ResourceV1().ResourceClaims(s.namespace).UpdateStatus(s.Context(), claim, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// releaseDevice makes a claim give back its device.
func (s *suite) releaseDevice(name string) {
	s.Helper()
	_, err := s.kube.ResourceV1().ResourceClaims(s.namespace).Patch(s.Context(), name, types.MergePatchType, []byte(`{"status":{"allocation":null}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		s.Fatal(err)
	}
}

// uses makes a Pod use a claim.
func uses(pod *corev1.Pod, claim string) {
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "device"}}
}

// TestAClaimThatIsStuckToAFullNodeIsReleased: its device was allocated on a node for a Pod
// that was not placed there in the end. Another node has a device, too, and GPUs.
func TestAClaimThatIsStuckToAFullNodeIsReleased(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addDevice("full", "")
	s.addDevice("free", "")
	s.addDeviceClass()
	s.claimDevice("stuck", "full")
	s.addNodes(machine{name: "full", gpus: 1}, machine{name: "free", gpus: 1})
	s.createAll(gang{name: "first"}, func(pod *corev1.Pod) { s.on(pod, "full") })
	s.waitForBound(1, "first")
	s.createAll(gang{name: "user"}, func(pod *corev1.Pod) { uses(pod, "stuck") })
	s.waitForBound(1, "user")
	if nodes := s.nodesOf("user"); nodes[0] != "free" {
		t.Errorf("it is on node %s", nodes[0])
	}
}

// TestAGPUOfAResourceClaimIsNeverPlanned: a driver for dynamic resource allocation gives out
// the third GPU of a node, the node agent the others.
func TestAGPUOfAResourceClaimIsNeverPlanned(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addDeviceClass()
	s.addNodes(machine{name: "a", gpus: 4})
	s.addDevice("a", s.gpu("a", 2))
	s.claimDevice("held", "a")
	s.createPods(gang{name: "large", pods: 4})
	s.waitForRefusal("large", "it would start with one more free GPU")
	s.createPods(gang{name: "small", pods: 2})
	s.waitForBound(2, "small")
	s.holdsNot(s.gpu("a", 2), "small")
	for index := range 2 {
		s.deletePod(fmt.Sprintf("small-%d", index))
	}
	s.releaseDevice("held")
	s.waitForBound(4, "large")
}

// TestAGPUThatAResourceClaimGetsIsNotPlanned: kube-scheduler allocates a GPU of each node to
// the claim of a Pod.
func TestAGPUThatAResourceClaimGetsIsNotPlanned(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.addDeviceClass()
	for _, node := range []string{"a", "b"} {
		s.addNodes(machine{name: node, gpus: 2})
		s.addDevice(node, s.gpu(node, 0))
		s.createClaim(node)
		user := s.launcherOf(gang{name: "user-" + node}, 0)
		uses(user, node)
		s.createPod(s.on(user, node))
		s.waitForBound(1, "user-"+node)
		s.createAll(gang{name: "task-" + node}, func(pod *corev1.Pod) { s.on(pod, node) })
		s.waitForBound(1, "task-"+node)
		s.holdsNot(s.gpu(node, 0), "task-"+node)
	}
}

// gpu returns the UUID of a GPU of a node.
func (s *suite) gpu(node string, index int) string {
	return fmt.Sprintf("GPU-%s-%d", s.node(node), index)
}

// holdsNot fails the test if a gang holds a GPU.
func (s *suite) holdsNot(uuid, gang string) {
	s.Helper()
	for _, pod := range s.ledger.podsOf(gang) {
		if strings.Contains(pod.Annotations[inventory.AssignmentAnnotation], strconv.Quote(uuid)) {
			s.Errorf("Pod %s has a GPU that a resource claim holds: %s", pod.Name, pod.Annotations[inventory.AssignmentAnnotation])
		}
	}
}
