// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/node"
	"falldio.github.io/gpu-controller/test/programs"
)

const (
	driverAddress = "127.0.0.1:9839"
	// driverSpecs match the CDI specifications that the DRA driver writes.
	driverSpecs = "/var/run/cdi/gpu.falldio.com-*"
	// claimSpecs match those of them that belong to claims.
	claimSpecs = "/var/run/cdi/gpu.falldio.com-claim_*"
)

// giveOutOverDRA has the DRA driver give out the node's GPUs for the rest of the test, beside an
// agent that only observes.
func (s *scene) giveOutOverDRA() {
	s.Helper()
	s.restartAgentWith("--mode=observe")
	s.waitForAllocatable(v1.ResourceGPU, 0)
	s.applyDRA(filepath.Join("artifacts", "dradriver", "base"))
	s.switchDRA(true)
	s.node.driver = node.NewProgram(s.node.Dir, "dradriver", append([]string{
		programs.Binary(raceDriver), "--node-name=" + node.Name, "--kubeconfig=" + s.kubeconfigOf("dradriver"), "--bind-address=" + driverAddress,
	}, s.node.driverArgs()...)...)
	if err := s.node.driver.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(s.stopDriver)
	s.waitForDriver()
}

// driverArgs are the driver's arguments wherever it runs.
func (n *realNode) driverArgs() []string {
	return []string{"--source=simulated", "--simulation-profile=" + n.agentProfile(), "--poll-interval=1s", "--recovery-period=2s"}
}

// applyDRA applies a folder of manifests; it is deleted at the end of the test.
func (s *scene) applyDRA(folder string) {
	s.Helper()
	path := filepath.Join(programs.Root(), folder)
	if filepath.IsAbs(folder) {
		path = folder
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		s.Fatal(err)
	}
	if err := s.node.Kubectl(s.Context(), "apply", "--kustomize="+absolute); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := s.node.Kubectl(context.WithoutCancel(s.Context()), "delete", "--kustomize="+absolute, "--cascade=foreground", "--timeout="+limit.String()); err != nil {
			s.Error(err)
		}
	})
}

// switchDRA sets or removes the label by which the node's GPUs are given out over DRA.
func (s *scene) switchDRA(on bool) {
	s.Helper()
	value := `null`
	if on {
		value = `"` + v1.AllocationDRA + `"`
	}
	patch := fmt.Sprintf(`{"metadata": {"labels": {%q: %s}}}`, v1.LabelGPUAllocation, value)
	_, err := s.node.Kube.CoreV1().Nodes().Patch(context.WithoutCancel(s.Context()), node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.Error(err)
	}
}

// stopDriver ends the driver after the test's Pods, which can't end without it.
func (s *scene) stopDriver() {
	s.Helper()
	s.removePods()
	s.switchDRA(false)
	if !s.node.driver.Running() {
		return
	}
	if err := s.node.driver.Stop(); err != nil {
		s.Error(err)
	}
	if slices := s.slicesOfNode(); len(slices) > 0 {
		s.Errorf("%d ResourceSlices are left by a driver whose node has been switched back", len(slices))
	}
	if left, _ := filepath.Glob(driverSpecs); len(left) > 0 {
		s.Errorf("CDI specifications are left: %v", left)
	}
	log, err := os.ReadFile(s.node.driver.Log)
	if err != nil {
		s.Error(err)
	}
	if strings.Contains(string(log), "DATA RACE") {
		s.Error("the race detector found something: see the driver's log")
	}
	s.checkForRefusals(string(log))
	s.showLogs()
	if err := os.Remove(s.node.driver.Log); err != nil {
		s.Error(err)
	}
}

// removePods deletes all Pods of the test and waits until they are gone.
func (s *scene) removePods() {
	s.Helper()
	ctx := context.WithoutCancel(s.Context())
	pods := s.node.Kube.CoreV1().Pods(s.namespace)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		s.Error(err)
	}
	s.eventually("all Pods of the test are gone", func() (bool, string) {
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		return len(list.Items) == 0, fmt.Sprintf("%d are left", len(list.Items))
	})
}

// slicesOfNode returns what the driver has published.
func (s *scene) slicesOfNode() []resourceapi.ResourceSlice {
	s.Helper()
	list, err := s.node.Kube.ResourceV1().ResourceSlices().List(context.WithoutCancel(s.Context()), metav1.ListOptions{
		FieldSelector: "spec.driver=" + v1.DRADriver + ",spec.nodeName=" + node.Name,
	})
	if err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// publishedDevices returns all devices of the node.
func (s *scene) publishedDevices() []resourceapi.Device {
	s.Helper()
	var list []resourceapi.Device
	for _, slice := range s.slicesOfNode() {
		list = append(list, slice.Spec.Devices...)
	}
	return list
}

func (s *scene) waitForDevices(count int) {
	s.Helper()
	s.eventually(fmt.Sprintf("the node has %d devices", count), func() (bool, string) {
		got := len(s.publishedDevices())
		return got == count, fmt.Sprintf("it has %d", got)
	})
}

// createClaim creates a claim for GPUs; with a percentage, for shares.
func (s *scene) createClaim(name string, count int64, percent string) {
	s.Helper()
	s.createClaimWith(name, func(request *resourceapi.ExactDeviceRequest) {
		if request.Count = count; percent != "" {
			request.DeviceClassName = "gpu-share.falldio.com"
			request.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"percent": resource.MustParse(percent)}}
		}
	})
}

// createClaimWith creates a claim for one whole GPU, after a change.
func (s *scene) createClaimWith(name string, change func(*resourceapi.ExactDeviceRequest)) {
	s.Helper()
	exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: v1.DRADriver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1}
	change(exactly)
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: exactly}}}},
	}
	if _, err := s.node.Kube.ResourceV1().ResourceClaims(s.namespace).Create(s.Context(), claim, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// claimPod returns a Pod that uses a claim.
func claimPod(name, claim string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appSpec()}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &claim}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpus"}}
	return pod
}

// createWithClaim creates a Pod and a claim of the same name.
func (s *scene) createWithClaim(name string, count int64, percent string) {
	s.Helper()
	s.createClaim(name, count, percent)
	s.create(claimPod(name, name))
}

// allocated returns the UUIDs of the GPUs that a claim has been allocated, sorted.
func (s *scene) allocated(claim string) []string {
	s.Helper()
	found, err := s.node.Kube.ResourceV1().ResourceClaims(s.namespace).Get(s.Context(), claim, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if found.Status.Allocation == nil {
		return nil
	}
	var uuids []string
	for i := range found.Status.Allocation.Devices.Results {
		name := found.Status.Allocation.Devices.Results[i].Device
		uuids = append(uuids, "GPU-"+strings.TrimPrefix(name, "gpu-")) // the rest is in lower case anyway
	}
	slices.Sort(uuids)
	return uuids
}

// hasExactly fails the test unless a running Pod sees just the GPUs of its claim, and returns
// them.
func (s *scene) hasExactly(name string, count int) []string {
	s.Helper()
	pod := s.waitForPod(name)
	want, got := s.allocated(name), s.injectedGPUs(pod)
	if diff := cmp.Diff(want, got); diff != "" || len(got) != count {
		s.Errorf("GPUs of Pod %s, %d are wanted (-claim +container):\n%s", name, count, diff)
	}
	return got
}

// prepareAgain is how long the kubelet may take to try once more to prepare a claim: it does so
// with the next periodic synchronization of the Pod, after 60 to 90 seconds.
const prepareAgain = 2 * time.Minute

// waitForPrepared waits until a Pod runs whose claim could perhaps not be prepared at first.
func (s *scene) waitForPrepared(name string) {
	s.Helper()
	s.within(prepareAgain, "the claim of Pod "+name+" is prepared", func() (bool, string) {
		pod := s.getPod(name)
		return pod.Status.Phase == corev1.PodRunning, s.eventsOf(name)
	})
}

// isUntouched fails the test if a Pod's container has been restarted, or sees other GPUs.
func (s *scene) isUntouched(before *corev1.Pod, gpus []string) {
	s.Helper()
	now := s.getPod(before.Name)
	if diff := cmp.Diff(s.instanceOf(before), s.instanceOf(now)); diff != "" {
		s.Errorf("Pod %s did not simply run on (-before +now):\n%s", before.Name, diff)
	}
	if diff := cmp.Diff(gpus, s.injectedGPUs(now)); diff != "" {
		s.Errorf("Pod %s has other GPUs now (-before +now):\n%s", before.Name, diff)
	}
}

// claimsDescribed waits until as many claims have a CDI specification.
func (s *scene) claimsDescribed(count int) {
	s.Helper()
	s.eventually(fmt.Sprintf("%d claims have CDI specifications", count), func() (bool, string) {
		files, err := filepath.Glob(claimSpecs)
		return err == nil && len(files) == count, fmt.Sprint(files, err)
	})
}

// deleteInBackground deletes a Pod without waiting for its end.
func (s *scene) deleteInBackground(name string) {
	s.Helper()
	if err := s.node.Kube.CoreV1().Pods(s.namespace).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) waitUntilGone(name string) {
	s.Helper()
	s.eventually("Pod "+name+" is gone", func() (bool, string) {
		_, err := s.node.Kube.CoreV1().Pods(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// metricsOf returns the metrics of the program at an address.
func (s *scene) metricsOf(address string) string {
	s.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// eventsOf returns the messages of the Events about a Pod.
func (s *scene) eventsOf(pod string) string {
	s.Helper()
	events, err := s.node.Kube.CoreV1().Events(s.namespace).List(s.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		s.Fatal(err)
	}
	var messages []string
	for i := range events.Items {
		messages = append(messages, events.Items[i].Message)
	}
	return strings.Join(messages, "; ")
}
