// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

const (
	namespace = "team"
	// othersPerNode is how many Pods of other owners run on each node.
	othersPerNode = 3
	gpuModel      = "h100-80gb-hbm3"
	image         = "registry.example.com/team/trainer@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// object is an object of any kind.
type object interface {
	runtime.Object
	metav1.Object
}

// prototype returns an empty object of a resource, nil if there is no such resource.
func prototype(resource string) object {
	switch resource {
	case "pods", othersPods:
		return &corev1.Pod{}
	case "services":
		return &corev1.Service{}
	case "nodes":
		return &corev1.Node{}
	case "resourcequotas":
		return &corev1.ResourceQuota{}
	case "limitranges":
		return &corev1.LimitRange{}
	case "poddisruptionbudgets":
		return &policyv1.PodDisruptionBudget{}
	case "priorityclasses":
		return &schedulingv1.PriorityClass{}
	default:
		return nil
	}
}

func decoder() runtime.Decoder { return protobuf.NewSerializer(scheme.Scheme, scheme.Scheme) }

// newTask returns a task as users write it.
func newTask(i int) *v1.GPUTask {
	name := fmt.Sprintf("train-%05d", i)
	task := &v1.GPUTask{
		TypeMeta: metav1.TypeMeta{Kind: "GPUTask", APIVersion: v1.GroupVersion.String()},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, UID: types.UID("00000000-0000-4000-8000-task" + name), ResourceVersion: "1", Generation: 1,
			CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second)),
			Labels:            map[string]string{"team": "vision", "experiment": name},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kubectl-create", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: v1.GroupVersion.String(),
				FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{".":{},"f:experiment":{},"f:team":{}}},"f:spec":{".":{},"f:backoffLimit":{},"f:gpu":{},"f:gpuAmount":{},"f:replicas":{},"f:template":{}}}`)},
			}},
		},
		Spec: v1.GPUTaskSpec{GPU: gpuModel, GPUAmount: "1", Replicas: ptr.To[int32](1), BackoffLimit: ptr.To[int32](6), FailurePolicy: v1.RestartTask},
	}
	task.Spec.Template = &corev1.PodTemplateSpec{}
	task.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: v1.ContainerName, Image: image, Command: []string{"python", "-m", "trainer"}, Args: []string{"--config=/config/train.yaml", "--name=" + name},
		Env:          environment(),
		VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "config", MountPath: "/config"}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		}},
	}}
	task.Spec.Template.Spec.Volumes = []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "datasets"}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}}},
	}
	return task
}

func environment() []corev1.EnvVar {
	var env []corev1.EnvVar
	for i := range 12 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("TRAINER_SETTING_%d", i), Value: fmt.Sprintf("the value of setting number %d", i)})
	}
	return env
}

// newRunningTask returns a task that has run for long on a node, with its Pod: nothing is to be done.
func newRunningTask(i int, node string) (*v1.GPUTask, *corev1.Pod, error) {
	task := newTask(i)
	config := gputask.Config{Pods: gputask.PodDefaults{Image: image}}
	pod, err := gputask.NewPod(task, 0, 0, config.Pods)
	if err != nil {
		return nil, nil, err
	}
	complete(pod, node)
	for range 3 { // until the status has settled
		plan, err := gputask.Decide(gputask.Input{
			Task: task, Pods: []*corev1.Pod{pod}, Lookup: func(string) *v1.GPUTask { return nil }, Now: time.Now(), Config: config,
		})
		if err != nil {
			return nil, nil, err
		}
		task.Status = plan.Status
	}
	return task, pod, nil
}

// complete adds to a Pod what admission, scheduler and kubelet add to it.
func complete(pod *corev1.Pod, node string) {
	begin := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	pod.UID, pod.ResourceVersion, pod.CreationTimestamp = types.UID("00000000-0000-4000-8000-"+pod.Name), "1", begin
	pod.Spec.NodeName, pod.Spec.ServiceAccountName = node, "default"
	pod.Spec.Tolerations = append(pod.Spec.Tolerations,
		corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)},
		corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](300)})
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To[int64](3607), Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}},
	}}}})
	pod.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "gpu-controller", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: make([]byte, 1500)}},
		{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: make([]byte, 1200)}, Subresource: "status"},
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &begin, HostIP: "10.0.0.1", PodIP: "10.1.0.1", PodIPs: []corev1.PodIP{{IP: "10.1.0.1"}}, HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}},
		QOSClass: corev1.PodQOSBurstable,
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: begin})
	}
	for i := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: pod.Spec.Containers[i].Name, Image: image, ImageID: image, ContainerID: "containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: begin}},
		})
	}
}

// newOtherPod returns a Pod of another owner.
func newOtherPod(node string, i int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("agent-%d-%s", i, node), Namespace: "kube-system", Labels: map[string]string{"app": fmt.Sprintf("agent-%d", i)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: fmt.Sprintf("agent-%d", i), UID: "daemonset", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "agent", Image: image, Args: []string{"--node=" + node}, Env: environment(),
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}},
		}}},
	}
	complete(pod, node)
	return pod
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

func newNode(i int) *corev1.Node {
	name := nodeName(i)
	resources := corev1.ResourceList{
		v1.ResourceGPU: resource.MustParse("16"), corev1.ResourcePods: resource.MustParse("110"),
		corev1.ResourceCPU: resource.MustParse("192"), corev1.ResourceMemory: resource.MustParse("2Ti"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), ResourceVersion: "1",
			Labels: map[string]string{v1.LabelGPUModel: gpuModel, corev1.LabelHostname: name, corev1.LabelTopologyZone: "zone-a"},
		},
		Status: corev1.NodeStatus{
			Capacity: resources, Allocatable: resources,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for j := range 50 { // as many as the kubelet reports
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprintf("%s-%d", image, j), fmt.Sprintf("registry.example.com/team/image-%d:v1", j)}, SizeBytes: 1 << 30})
	}
	return node
}

// fill stores tasks that run, the nodes and the Pods of other owners.
func (s *apiServer) fill(tasks, nodes int) error {
	for i := range tasks {
		task, pod, err := newRunningTask(i, nodeName(i%nodes))
		if err != nil {
			return err
		}
		if err := s.put("gputasks", task.Name, task); err != nil {
			return err
		}
		if err := s.put("pods", pod.Name, pod); err != nil {
			return err
		}
	}
	for i := range nodes {
		node := newNode(i)
		if err := s.put("nodes", node.Name, node); err != nil {
			return err
		}
		for j := range othersPerNode {
			pod := newOtherPod(node.Name, j)
			if err := s.put(othersPods, pod.Name, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillRefused stores tasks without Pods.
func (s *apiServer) fillRefused(tasks int) error {
	for i := range tasks {
		task := newTask(i)
		if err := s.put("gputasks", task.Name, task); err != nil {
			return err
		}
	}
	return nil
}
