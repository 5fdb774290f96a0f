// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/node"
)

// deviceVariables are the variables in which containers find their devices.
var deviceVariables = map[corev1.ResourceName]string{
	v1.ResourceGPU: "FALLDIO_VISIBLE_DEVICES", // unless they get them by CDI
	resourceRDMA:   "FALLDIO_VISIBLE_RDMA",
}

// What a container has of each GPU that it was given by CDI: a file, and a variable.
const (
	gpuFile     = "/run/falldio/gpus/"
	gpuVariable = "FALLDIO_GPU_"
)

// appSpec returns the spec of the Pod that most tests run. It uses the node's network.
func appSpec() corev1.PodSpec {
	grace := int64(5)
	return corev1.PodSpec{
		HostNetwork:                   true,
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []corev1.Container{{Name: v1.ContainerName, Image: node.AppImage, ImagePullPolicy: corev1.PullNever}},
	}
}

// createPod creates a Pod for the real node that requests the given devices.
func (s *scene) createPod(name string, devices map[corev1.ResourceName]int64) {
	s.Helper()
	s.createLabelledPod(name, nil, devices)
}

// createLabelledPod creates such a Pod with labels.
func (s *scene) createLabelledPod(name string, labels map[string]string, devices map[corev1.ResourceName]int64) {
	s.Helper()
	s.create(newPod(name, labels, devices))
}

func newPod(name string, labels map[string]string, devices map[corev1.ResourceName]int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: appSpec()}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{}
	for resourceName, count := range devices {
		pod.Spec.Containers[0].Resources.Limits[resourceName] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	return pod
}

// createGPUPod creates a Pod that requests only GPUs.
func (s *scene) createGPUPod(name string, gpus int64) {
	s.Helper()
	s.createPod(name, map[corev1.ResourceName]int64{v1.ResourceGPU: gpus})
}

func (s *scene) getPod(name string) *corev1.Pod {
	s.Helper()
	pod, err := s.node.Kube.CoreV1().Pods(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

// deletePod deletes a Pod and waits until it is gone.
func (s *scene) deletePod(name string) {
	s.Helper()
	pods := s.node.Kube.CoreV1().Pods(s.namespace)
	if err := pods.Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.eventually("Pod "+name+" is gone", func() (bool, string) {
		list, err := pods.List(s.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		return err == nil && len(list.Items) == 0, fmt.Sprint(err)
	})
}

// waitForPod waits until a Pod, which need not exist yet, runs, and returns it.
func (s *scene) waitForPod(name string) *corev1.Pod {
	s.Helper()
	var pod *corev1.Pod
	s.eventually("Pod "+name+" runs", func() (bool, string) {
		var err error
		if pod, err = s.node.Kube.CoreV1().Pods(s.namespace).Get(s.Context(), name, metav1.GetOptions{}); err != nil {
			return false, err.Error()
		}
		if pod.Status.Phase == corev1.PodFailed {
			s.Fatalf("Pod %s has failed: %s: %s", name, pod.Status.Reason, pod.Status.Message)
		}
		return pod.Status.Phase == corev1.PodRunning, fmt.Sprintf("%s %s", pod.Status.Phase, pod.Status.String())
	})
	return pod
}

// waitUntilItLacksGPUs waits until the scheduler has rejected a Pod because the
// real node has too few GPUs for it.
func (s *scene) waitUntilItLacksGPUs(name string, gpus int) {
	s.Helper()
	s.eventually(fmt.Sprintf("Pod %s waits for %d GPUs", name, gpus), func() (bool, string) {
		pod := s.getPod(name)
		if pod.Spec.NodeName != "" {
			s.Fatalf("Pod %s has a node", name)
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				explained := strings.Contains(condition.Message, fmt.Sprintf("needs %d GPU", gpus)) &&
					strings.Contains(condition.Message, "has too few free GPUs")
				return explained, condition.Message
			}
		}
		return false, string(pod.Status.Phase)
	})
}

// devicesOf returns the devices of a running Pod, sorted, by resource. It compares
// the three sources of them: the container's environment, the kubelet's checkpoint,
// and the annotation that the agent writes.
func (s *scene) devicesOf(pod *corev1.Pod) map[string][]string {
	s.Helper()
	seen := s.devicesSeenBy(pod)
	s.eventually("the kubelet's notes name the devices of Pod "+pod.Name, func() (bool, string) {
		noted, err := checkpointed(pod.UID)
		if err != nil {
			return false, err.Error()
		}
		return maps.EqualFunc(seen, noted, slices.Equal), cmp.Diff(seen, noted)
	})
	s.eventually("the annotation of Pod "+pod.Name+" names its devices", func() (bool, string) {
		annotation := s.getPod(pod.Name).Annotations[inventory.AssignmentAnnotation]
		if annotation == "" {
			return false, "there is none"
		}
		assignment, err := inventory.ParseAssignment(annotation)
		if err != nil {
			s.Fatal(err)
		}
		want := map[string]map[string][]string{v1.ContainerName: seen}
		diff := cmp.Diff(want, assignment.Containers)
		return diff == "", diff
	})
	return seen
}

// injectedGPUs returns the GPUs that a Pod's container was given by CDI, sorted: those of its
// files, which are all that it can use.
func (s *scene) injectedGPUs(pod *corev1.Pod) []string {
	s.Helper()
	var files, variables []string
	for name, value := range s.environmentOf(pod) {
		if uuid, found := strings.CutPrefix(name, gpuFile); found {
			files = append(files, uuid)
		}
		if strings.HasPrefix(name, gpuVariable) {
			variables = append(variables, value)
		}
	}
	slices.Sort(files)
	slices.Sort(variables)
	if diff := cmp.Diff(files, variables); diff != "" {
		s.Errorf("the files and the variables of Pod %s are of different GPUs (-files +variables):\n%s", pod.Name, diff)
	}
	return files
}

// devicesSeenBy returns the devices that a Pod's container sees.
func (s *scene) devicesSeenBy(pod *corev1.Pod) map[string][]string {
	s.Helper()
	environment := s.environmentOf(pod)
	devices := map[string][]string{}
	if gpus := s.injectedGPUs(pod); len(gpus) > 0 {
		devices[string(v1.ResourceGPU)] = gpus
	}
	for resourceName, variable := range deviceVariables {
		value, given := environment[variable]
		if !given {
			continue
		}
		ids := strings.Split(value, ",")
		slices.Sort(ids) // the kubelet passes them in any order
		if distinct := slices.Compact(slices.Clone(ids)); len(distinct) != len(ids) || slices.Contains(ids, "") {
			s.Errorf("Pod %s has %s=%s, which are not different devices", pod.Name, variable, value)
		}
		devices[string(resourceName)] = ids
	}
	return devices
}

// environmentOf returns the environment that a Pod's container has printed to its
// log.
func (s *scene) environmentOf(pod *corev1.Pod) map[string]string {
	s.Helper()
	var log string
	s.eventually("Pod "+pod.Name+" has told of its environment", func() (bool, string) {
		data, err := s.node.Kube.CoreV1().Pods(s.namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(s.Context())
		if err != nil {
			return false, err.Error()
		}
		log = string(data)
		return strings.Contains(log, "-- that was all"), log
	})
	environment := map[string]string{}
	for line := range strings.Lines(log) {
		if name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "="); found {
			environment[name] = value
		}
	}
	return environment
}

// instance identifies one run of a Pod's container: it changes with a restart.
type instance struct {
	Phase       corev1.PodPhase
	ContainerID string
	Since       time.Time
	Restarts    int32
}

// instanceOf returns the instance of a running Pod's container.
func (s *scene) instanceOf(pod *corev1.Pod) instance {
	s.Helper()
	statuses := pod.Status.ContainerStatuses
	if len(statuses) != 1 || statuses[0].State.Running == nil {
		s.Fatalf("the container of Pod %s does not run: %s", pod.Name, pod.Status.String())
	}
	return instance{pod.Status.Phase, statuses[0].ContainerID, statuses[0].State.Running.StartedAt.UTC(), statuses[0].RestartCount}
}

// isUnaffected fails the test if a Pod's container has been restarted or holds
// other devices.
func (s *scene) isUnaffected(before *corev1.Pod, devices map[string][]string) {
	s.Helper()
	now := s.getPod(before.Name)
	if diff := cmp.Diff(s.instanceOf(before), s.instanceOf(now)); diff != "" {
		s.Errorf("Pod %s did not simply run on (-before +now):\n%s", before.Name, diff)
	}
	if diff := cmp.Diff(devices, s.devicesOf(now)); diff != "" {
		s.Errorf("Pod %s has other devices now (-before +now):\n%s", before.Name, diff)
	}
}

// haveNothingInCommon fails the test if a device is on both lists.
func (s *scene) haveNothingInCommon(one, other []string) {
	s.Helper()
	for _, device := range one {
		if slices.Contains(other, device) {
			s.Errorf("device %s is given away twice", device)
		}
	}
}
