// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/node"
)

const (
	smallSlices corev1.ResourceName = "falldio.com/mig-1g.10gb"
	halves      corev1.ResourceName = "falldio.com/mig-3g.40gb"
	quarters    corev1.ResourceName = "falldio.com/mig-2g.20gb"

	// sliceVariable begins the variables by which a container is told of its slices.
	sliceVariable = "FALLDIO_MIG_"
)

// dividedProfile is the agent's profile with two divided GPUs.
const dividedProfile = agentProfile + `mig:
- {gpus: 1, slices: [3g.40gb, 1g.10gb, 1g.10gb]}
- {gpus: 1, slices: [1g.10gb, 1g.10gb, 1g.10gb]}
`

// divideGPUs restarts the agent with divided GPUs for the rest of the test.
func (s *scene) divideGPUs() {
	s.Helper()
	profile := filepath.Join(s.node.Dir, "divided.yaml")
	if err := os.WriteFile(profile, []byte(dividedProfile), 0o600); err != nil {
		s.Fatal(err)
	}
	s.restartAgentWith("--simulation-profile=" + profile)
	s.waitForAllocatable(smallSlices, 5)
	s.waitForAllocatable(halves, 1)
	s.waitForAllocatable(v1.ResourceGPU, gpus-2)
}

// slicesSeenBy returns the slices that a Pod's container can use, sorted: those of its files. It
// fails the test if it is told of others, or can use a GPU.
func (s *scene) slicesSeenBy(pod *corev1.Pod) []string {
	s.Helper()
	var files, variables []string
	for name, value := range s.environmentOf(pod) {
		if uuid, found := strings.CutPrefix(name, gpuFile); found {
			files = append(files, uuid)
		}
		if strings.HasPrefix(name, sliceVariable) || strings.HasPrefix(name, gpuVariable) {
			variables = append(variables, value)
		}
	}
	slices.Sort(files)
	slices.Sort(variables)
	if diff := cmp.Diff(files, variables); diff != "" {
		s.Errorf("Pod %s (-files +variables):\n%s", pod.Name, diff)
	}
	for _, uuid := range files {
		if !strings.HasPrefix(uuid, "MIG-") {
			s.Errorf("Pod %s can use the GPU %s", pod.Name, uuid)
		}
	}
	return files
}

// slicesOf returns the slices of a running Pod, after comparing what it sees with the kubelet's
// notes and with the annotation.
func (s *scene) slicesOf(pod *corev1.Pod, resource corev1.ResourceName) []string {
	s.Helper()
	seen := s.slicesSeenBy(pod)
	want := map[string][]string{string(resource): seen}
	noted, err := checkpointed(pod.UID)
	if diff := cmp.Diff(want, noted); diff != "" || err != nil {
		s.Errorf("Pod %s, error %v (-seen +the kubelet's notes):\n%s", pod.Name, err, diff)
	}
	s.eventually("the annotation of Pod "+pod.Name+" names its slices", func() (bool, string) {
		assignment, err := inventory.ParseAssignment(s.getPod(pod.Name).Annotations[inventory.AssignmentAnnotation])
		if err != nil {
			return false, err.Error()
		}
		diff := cmp.Diff(map[string]map[string][]string{v1.ContainerName: want}, assignment.Containers)
		return diff == "", diff
	})
	return seen
}

// sliceGPUs returns the index of the GPU of each slice in the inventory.
func (s *scene) sliceGPUs() map[string]int {
	s.Helper()
	of := map[string]int{}
	for _, gpu := range s.inventoryOfNode().GPUs {
		for _, slice := range gpu.Slices {
			of[slice.UUID] = gpu.Index
		}
	}
	return of
}

// TestAContainerSeesExactlyItsSlices has Pods that request slices of divided GPUs.
func TestAContainerSeesExactlyItsSlices(t *testing.T) {
	s := newScene(t)
	s.divideGPUs()
	s.waitForLabel(v1.LabelMIGStrategy, v1.MIGMixed)
	s.waitForLabel(string(smallSlices)+v1.MIGCountSuffix, "5")
	s.waitForLabel(v1.LabelGPUCount, fmt.Sprint(gpus))

	s.createPod("half", map[corev1.ResourceName]int64{halves: 1})
	half := s.slicesOf(s.waitForPod("half"), halves)
	s.createPod("one", map[corev1.ResourceName]int64{smallSlices: 1})
	one := s.slicesOf(s.waitForPod("one"), smallSlices)
	s.createPod("two", map[corev1.ResourceName]int64{smallSlices: 2})
	two := s.slicesOf(s.waitForPod("two"), smallSlices)
	if len(half) != 1 || len(one) != 1 || len(two) != 2 {
		t.Errorf("the Pods see %v, %v and %v, want 1, 1 and 2 slices", half, one, two)
	}
	of := s.sliceGPUs()
	var on []int
	for _, uuid := range slices.Concat(half, one, two) {
		on = append(on, of[uuid])
	}
	slices.Sort(on[2:])
	// The GPU that is in use comes first; the Pod that needs two takes one of each.
	if diff := cmp.Diff([]int{0, 0, 0, 1}, on); diff != "" {
		t.Errorf("the GPUs of the slices (-want +got):\n%s", diff)
	}
	s.haveNothingInCommon(one, two)

	s.createGPUPod("whole", gpus-2)
	whole := s.devicesOf(s.waitForPod("whole"))[string(v1.ResourceGPU)]
	for _, gpu := range s.inventoryOfNode().GPUs {
		if gpu.MIG == slices.Contains(whole, gpu.UUID) {
			t.Errorf("GPU %d, divided: %t; given out as a whole: %t", gpu.Index, gpu.MIG, slices.Contains(whole, gpu.UUID))
		}
	}
}

// TestSlicesSurviveRestarts restarts what gives a container its slices, and then the container.
func TestSlicesSurviveRestarts(t *testing.T) {
	s := newScene(t)
	s.divideGPUs()
	pod := gpuPod("stays", 0)
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{smallSlices: *resource.NewQuantity(2, resource.DecimalSI)}
	s.create(pod)
	before := s.slicesOf(s.waitForPod("stays"), smallSlices)
	for _, program := range []*node.Program{s.node.Kubelet, s.node.agent} {
		if err := program.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
	}
	s.waitForAllocatable(smallSlices, 5)
	s.killContainer("stays")
	s.eventually("the container runs again", func() (bool, string) {
		now := s.getPod("stays")
		status := now.Status.ContainerStatuses
		return len(status) == 1 && status[0].RestartCount > 0 && status[0].State.Running != nil, now.Status.String()
	})
	if diff := cmp.Diff(before, s.slicesOf(s.getPod("stays"), smallSlices)); diff != "" || len(before) != 2 {
		t.Errorf("slices (-before +after):\n%s", diff)
	}
}

// TestAGPUIsDividedAnewWhileTheAgentRuns breaks a divided GPU, and divides it anew.
func TestAGPUIsDividedAnewWhileTheAgentRuns(t *testing.T) {
	s := newScene(t)
	s.divideGPUs()
	s.createPod("stays", map[corev1.ResourceName]int64{smallSlices: 1})
	stays := s.waitForPod("stays")
	held := s.slicesOf(stays, smallSlices)
	used := s.sliceGPUs()[held[0]]
	if used != 0 {
		t.Fatalf("the Pod has a slice of GPU %d, want the one with the fewest left", used)
	}
	s.inject(1, "ECC")
	s.waitForAllocatable(smallSlices, 2)
	s.waitForAllocatable(halves, 1)
	s.inject(1, "Recovered")
	s.waitForAllocatable(smallSlices, 5)

	s.inject(1, "MIG", "2g.20gb", "2g.20gb", "3g.40gb")
	s.waitForAllocatable(quarters, 2)
	s.waitForAllocatable(halves, 2)
	s.waitForCapacity(smallSlices, 2)
	s.createPod("quarter", map[corev1.ResourceName]int64{quarters: 1})
	if got := s.slicesOf(s.waitForPod("quarter"), quarters); len(got) != 1 || s.sliceGPUs()[got[0]] != 1 {
		t.Errorf("the Pod has %v", got)
	}
	s.deletePod("quarter")
	s.inject(1, "MIG")
	s.waitForCapacity(quarters, 0)
	s.waitForLabel(v1.LabelMIGStrategy, v1.MIGMixed)
	s.waitForEvent("GPUMIGSlices", "is divided into no slices now")
	if diff := cmp.Diff(held, s.slicesOf(s.getPod("stays"), smallSlices)); diff != "" {
		t.Errorf("slices of the Pod on the other GPU (-before +after):\n%s", diff)
	}
}

// waitForCapacity waits until the real node has exactly this much of a resource, usable or not.
func (s *scene) waitForCapacity(name corev1.ResourceName, count int64) {
	s.Helper()
	s.eventually(fmt.Sprintf("node %s has %d %s", node.Name, count, name), func() (bool, string) {
		has := s.getNode().Status.Capacity[name]
		return has.Value() == count, has.String()
	})
}

// waitForEvent waits for an Event of the real node.
func (s *scene) waitForEvent(reason, text string) {
	s.Helper()
	s.eventually("there is an Event "+reason, func() (bool, string) {
		list, err := s.node.Kube.CoreV1().Events(metav1.NamespaceAll).List(s.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return false, err.Error()
		}
		var messages []string
		for i := range list.Items {
			messages = append(messages, list.Items[i].Message)
		}
		all := strings.Join(messages, "\n")
		return strings.Contains(all, text), all
	})
}
