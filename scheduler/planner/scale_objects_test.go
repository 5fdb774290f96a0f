// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// The objects of the benchmark of a large cluster.

const (
	// nodesPerLeaf is how many nodes are in a leaf.
	nodesPerLeaf = 32
	// podsPerNode is how many Pods run on each node: of its 8 GPUs one is free.
	podsPerNode = 10
	// waitingMembers is how many Pods a waiting gang has, waitingShapes how many different
	// requests there are.
	waitingMembers = 8
	waitingShapes  = 50
)

// isRefused reports whether the gangs of a shape have room, but volumes in a zone without
// nodes: a tenth of them.
func isRefused(shape int) bool { return shape%10 == 9 }

// volumesOf returns the volumes of the gangs that are refused, one for each.
func volumesOf(gangs int) []runtime.Object {
	var objects []runtime.Object
	for i := range gangs {
		if isRefused(i % waitingShapes) {
			volume, claim := volumeIn("without-nodes")
			volume.Name, claim.Name = fmt.Sprint("volume-", i), fmt.Sprint("dataset-", i)
			volume.Spec.ClaimRef.Name, claim.Spec.VolumeName = claim.Name, volume.Name
			objects = append(objects, volume, claim)
		}
	}
	return objects
}

func withClaim(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "dataset", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
}

type nodeInfo = fwk.NodeInfo

// realistic returns the Pod as an informer stores it: with what the API server, the kubelet
// and controllers add, decoded and trimmed.
func (r *scaleRun) realistic(pod *corev1.Pod) *corev1.Pod {
	r.t.Helper()
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: pod.Name, UID: pod.UID}}
	pod.Labels["app.kubernetes.io/name"], pod.Labels["batch.kubernetes.io/job-name"] = "training", pod.Name
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "example.com/submitted-by", "somebody@example.com")
	container := &pod.Spec.Containers[0]
	container.Image = "registry.example.com/team/training:2026.11"
	container.Command = []string{"python", "-m", "train", "--config", "/etc/train/config.yaml"}
	for i := range 12 {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: fmt.Sprint("value-of-", pod.Name)})
	}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}}
	container.Resources.Limits = container.Resources.Requests.DeepCopy()
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
	}}})
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	}
	pod.Status.Phase = corev1.PodPending
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(beginning)})
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container.Name, Image: container.Image, ImageID: container.Image, ContainerID: "containerd://" + pod.Name}}
	text, err := pod.Marshal()
	if err != nil {
		r.t.Fatal(err)
	}
	decoded := &corev1.Pod{}
	if err := decoded.Unmarshal(text); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.trimmer.Transform(decoded); err != nil {
		r.t.Fatal(err)
	}
	return decoded
}

// addLargeNode adds a node with 8 GPUs, of which one is free, and its Pods.
func (r *scaleRun) addLargeNode(number int) {
	r.t.Helper()
	name := fmt.Sprintf("node-%05d", number)
	leaf := number / nodesPerLeaf
	r.addNode(name, fmt.Sprint("leaf-", leaf), 8)
	node := r.infos[name].Node()
	node.Labels["falldio.com/rack"], node.Labels[corev1.LabelTopologyZone] = fmt.Sprint("rack-", leaf/8), fmt.Sprint("zone-", leaf/64)
	node.Labels[corev1.LabelHostname], node.Labels[v1.LabelGPUModel] = name, "h100-80gb-hbm3"
	node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("128")
	node.Status.Allocatable[corev1.ResourceMemory] = resource.MustParse("1Ti")
	node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	node.Status.Capacity = node.Status.Allocatable.DeepCopy()
	for i := range 30 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{fmt.Sprint("registry.example.com/image-", i, "@", name)}, SizeBytes: 1 << 30})
	}
	r.infos[name].SetNode(node)
	r.nodeUpdated(nil, node)
	if err := r.handle.informers.Core().V1().Nodes().Informer().GetIndexer().Add(node); err != nil {
		r.t.Fatal(err)
	}
	for i := range podsPerNode {
		r.runOn(name, i)
	}
}

// runOn adds one of a node's Pods: six with a GPU, two that share one, two without.
func (r *scaleRun) runOn(node string, number int) {
	r.t.Helper()
	name, cards := fmt.Sprint(node, "-", number), []int{number}
	one := pod(name, 1)
	switch {
	case number >= 8:
		one, cards = pod(name, 0), nil
		delete(one.Spec.Containers[0].Resources.Requests, v1.ResourceGPU)
	case number >= 6:
		one, cards = pod(name, 0), []int{6}
		delete(one.Spec.Containers[0].Resources.Requests, v1.ResourceGPU)
		one.Spec.Containers[0].Resources.Requests[v1.ResourceGPUPercent] = resource.MustParse("50")
	}
	one = r.realistic(at(one, node, cards...))
	one.Status.Phase = corev1.PodRunning
	r.infos[node].AddPod(one)
	r.podUpdated(nil, one)
	if err := r.handle.informers.Core().V1().Pods().Informer().GetIndexer().Add(one); err != nil {
		r.t.Fatal(err)
	}
}

// addGangs adds the gangs that wait. None of them fits: each Pod needs more GPUs than any
// node has free, or a volume that no node can use. No Pod has a lower priority. They are
// older than the small Pods.
func (r *scaleRun) addGangs() {
	r.t.Helper()
	for i := range r.size.gangs {
		shape := i % waitingShapes
		r.next++
		name, gpus := fmt.Sprint("gang-", r.next), []int{2, 4, 8}[shape%3]
		if isRefused(shape) {
			gpus = 1
		}
		for j := range waitingMembers {
			one := pod(fmt.Sprint(name, "-", j), gpus, in(name, waitingMembers, j), func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewQuantity(int64(1+shape/6), resource.DecimalSI)
				p.CreationTimestamp.Time = beginning.Add(time.Duration(i) * time.Second)
			})
			if shape%4 == 0 {
				inOneLeaf(one)
			}
			if isRefused(shape) {
				withClaim(fmt.Sprint("dataset-", i))(one)
			}
			one = r.realistic(one)
			r.gangs = append(r.gangs, one)
			r.podUpdated(nil, one)
		}
	}
}

func (r *scaleRun) removeGangs() {
	r.t.Helper()
	for _, one := range r.gangs {
		r.podDeleted(one)
	}
	r.gangs = nil
	clear(r.tried)
	r.queue.clear() // none of them is there any more
}
