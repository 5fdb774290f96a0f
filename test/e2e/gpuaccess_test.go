// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestPodsGetNoGPUsThatTheyDoNotAskFor applies artifacts/gpuaccess to the test's namespace only.
func TestPodsGetNoGPUsThatTheyDoNotAskFor(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	tenant := s.newTenant()
	for _, name := range []string{"nvidia", "nvidia-legacy"} {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: name}
		if _, err := s.cluster.kube.NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before := gpuPod("from-before", "1")
	before.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}
	pods := tenant.kube.CoreV1().Pods(s.namespace)
	if _, err := pods.Create(t.Context(), before, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.applyPolicy("gpuaccess", "gpu-access")
	attempt := func(asks bool, change func(*corev1.Pod)) error {
		pod := gpuPod("attack", "1")
		if !asks {
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		}
		change(pod)
		_, err := tenant.kube.CoreV1().Pods(s.namespace).Create(t.Context(), pod, dryCreation())
		return err
	}
	class := func(name string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.RuntimeClassName = &name }
	}
	variable := func(variable corev1.EnvVar) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.Containers[0].Env = []corev1.EnvVar{variable} }
	}
	const ofVariable, ofClass = "a Pod must not choose its GPUs by NVIDIA_VISIBLE_DEVICES", "is for Pods in which each container requests GPUs"
	s.eventually("the policy is in force", func() (bool, string) {
		return attempt(false, class("nvidia")) != nil, "the RuntimeClass is allowed"
	})
	checkRefusal(t, attempt(false, class("nvidia")), "runtimeClassName: nvidia "+ofClass)
	checkRefusal(t, attempt(true, func(pod *corev1.Pod) {
		class("nvidia-legacy")(pod)
		pod.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "cuda"}}
	}), "runtimeClassName: nvidia-legacy "+ofClass)
	for _, others := range []corev1.ResourceList{
		{v1.ResourceGPU: resource.MustParse("0")}, {v1.ResourceNVIDIAGPU: resource.MustParse("0")}, {"nvidia.com/rdma": resource.MustParse("1")},
	} {
		checkRefusal(t, attempt(false, func(pod *corev1.Pod) {
			class("nvidia")(pod)
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: others, Limits: others}
		}), "runtimeClassName: nvidia "+ofClass)
	}
	checkRefusal(t, attempt(true, variable(corev1.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"})), ofVariable)
	checkRefusal(t, attempt(false, variable(corev1.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}, Key: "k"},
	}})), ofVariable)
	checkRefusal(t, attempt(false, variable(corev1.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", Value: "void"})), "")
	checkRefusal(t, attempt(true, func(*corev1.Pod) {}), "")
	checkRefusal(t, attempt(true, class("nvidia")), "")

	_, err := pods.Patch(t.Context(), before.Name, types.MergePatchType, []byte(`{"metadata": {"labels": {"theirs": "x"}}}`), metav1.PatchOptions{})
	checkRefusal(t, err, "")
	debug := func(value string) error { // Kubernetes' role edit may not
		patch := fmt.Sprintf(`{"spec": {"ephemeralContainers": [{"name": "debug", "image": "x", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": %q}]}]}}`, value)
		_, err := s.cluster.kube.CoreV1().Pods(s.namespace).Patch(t.Context(), before.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "ephemeralcontainers")
		return err
	}
	checkRefusal(t, debug("all"), ofVariable)
	checkRefusal(t, debug("void"), "")
}
