// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/test/node"
)

const (
	// exampleDriver is the name of Kubernetes' example of a DRA driver, and of its DeviceClass here.
	exampleDriver = "gpu.example.com"
	// exampleSpecs match the CDI specifications that it writes: one for each claim, and one for all.
	exampleSpecs = "/var/run/cdi/k8s.gpu.example.com-gpu_*"
)

// exampleVariable is how a container finds a device of the example driver.
var exampleVariable = regexp.MustCompile(`^GPU_DEVICE_\d+$`)

// TestAGangGetsThePlannedDevicesOfAnotherDRADriver has gpu-scheduler place a gang on devices of a
// driver that knows nothing of it, kubernetes-sigs/dra-example-driver, on a node without our agent.
// The containers must see exactly the devices of the plan.
func TestAGangGetsThePlannedDevicesOfAnotherDRADriver(t *testing.T) {
	const each = (gpus - 2) / 2 // with the two single Pods, all are in use
	s := newScene(t)
	s.startExampleDriver()
	gang := map[string]string{v1.LabelPodGroup: "train", v1.LabelMinAvailable: "2"}
	s.createTemplate("of-the-gang", each)
	s.createTemplate("single", 1)
	s.create(templatePod("before", "single", nil))
	before := s.hasExampleDevices("before", 1)

	s.create(templatePod("worker-0", "of-the-gang", gang))
	s.create(templatePod("witness", "single", nil)) // shows that the scheduler has moved on
	witness := s.hasExampleDevices("witness", 1)
	s.haveNothingInCommon(before, witness)
	if node := s.getPod("worker-0").Spec.NodeName; node != "" {
		t.Fatalf("one of two Pods that need each other is on node %s", node)
	}
	s.create(templatePod("worker-1", "of-the-gang", gang))
	one, other := s.hasExampleDevices("worker-0", each), s.hasExampleDevices("worker-1", each)
	s.haveNothingInCommon(one, other)
	s.haveNothingInCommon(slices.Concat(before, witness), slices.Concat(one, other))

	s.deletePod("before")
	s.create(templatePod("after", "single", nil))
	if diff := cmp.Diff(before, s.hasExampleDevices("after", 1)); diff != "" {
		t.Errorf("the only free device is not the one that was released (-released +given):\n%s", diff)
	}
	s.removePods()
	s.hasFiles(exampleSpecs, 1)
	s.eventually("no claim is left", func() (bool, string) {
		claims, err := s.node.Kube.ResourceV1().ResourceClaims(s.namespace).List(s.Context(), metav1.ListOptions{})
		return err == nil && len(claims.Items) == 0, fmt.Sprint(err)
	})
}

// startExampleDriver has the example driver give out as many GPUs as the node has, for the rest of
// the test, on a node without our agent.
func (s *scene) startExampleDriver() {
	s.Helper()
	if err := s.node.agent.Stop(); err != nil {
		s.Fatal(err)
	}
	s.waitForAllocatable(v1.ResourceGPU, 0)
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: null}}}`, inventory.Annotation)
	if _, err := s.node.Kube.CoreV1().Nodes().Patch(s.Context(), node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
	classes := s.node.Kube.ResourceV1().DeviceClasses()
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: exampleDriver}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", exampleDriver)}}}
	if _, err := classes.Create(s.Context(), class, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	driver := node.NewProgram(s.node.Dir, exampleProgram, filepath.Join(s.node.Dir, exampleProgram), "--kubeconfig="+s.node.Kubeconfig(),
		"--node-name="+node.Name, "--cdi-root=/var/run/cdi", fmt.Sprintf("--num-devices=%d", gpus))
	if err := driver.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		s.removePods() // which can't end without it
		ctx := context.WithoutCancel(s.Context())
		if err := driver.Kill(); err != nil {
			s.Error(err)
		}
		files, err := filepath.Glob(exampleSpecs)
		for _, file := range files {
			err = errors.Join(err, os.Remove(file))
		}
		if err != nil {
			s.Error(err)
		}
		err = s.node.Kube.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.driver=" + exampleDriver})
		if err != nil {
			s.Error(err)
		}
		if err := classes.Delete(ctx, exampleDriver, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.Error(err)
		}
	})
	s.eventually("the example driver has published its devices", func() (bool, string) {
		uuids := s.exampleUUIDs()
		return len(uuids) == gpus, fmt.Sprintf("there are %d", len(uuids))
	})
}

// exampleUUIDs returns the UUIDs of the example driver's devices, by their names.
func (s *scene) exampleUUIDs() map[string]string {
	s.Helper()
	list, err := s.node.Kube.ResourceV1().ResourceSlices().List(s.Context(), metav1.ListOptions{FieldSelector: "spec.driver=" + exampleDriver})
	if err != nil {
		s.Fatal(err)
	}
	uuids := map[string]string{}
	for i := range list.Items {
		for _, device := range list.Items[i].Spec.Devices {
			uuids[device.Name] = *device.Attributes["uuid"].StringValue
		}
	}
	return uuids
}

// createTemplate creates a template of claims for devices of the example driver.
func (s *scene) createTemplate(name string, count int64) {
	s.Helper()
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: exampleDriver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}}}
	if _, err := s.node.Kube.ResourceV1().ResourceClaimTemplates(s.namespace).Create(s.Context(), template, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// templatePod returns a Pod with a claim of its own.
func templatePod(name, template string, labels map[string]string) *corev1.Pod {
	pod := claimPod(name, "")
	pod.Labels = labels
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}}
	return pod
}

// hasExampleDevices fails the test unless a running Pod sees just the devices that were planned for
// it, and returns their names.
func (s *scene) hasExampleDevices(name string, count int) []string {
	s.Helper()
	pod := s.waitForPod(name)
	var seen, seenUUIDs []string
	uuids := s.exampleUUIDs()
	for variable, device := range s.environmentOf(pod) {
		if exampleVariable.MatchString(variable) {
			seen = append(seen, device)
			seenUUIDs = append(seenUUIDs, uuids[device])
		}
	}
	slices.Sort(seen)
	slices.Sort(seenUUIDs)
	planned := slices.Sorted(slices.Values(s.assignmentOf(name)[v1.ContainerName][string(snapshot.ResourceClaims)]))
	if diff := cmp.Diff(planned, seenUUIDs); diff != "" || len(seen) != count {
		s.Errorf("Pod %s sees the devices %s, %d are wanted (-planned +seen):\n%s", name, strings.Join(seen, ", "), count, diff)
	}
	return seen
}
