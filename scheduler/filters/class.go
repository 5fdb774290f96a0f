// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"crypto/sha256"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Class is a set of Pods that filters can't tell apart.
type Class struct {
	// Key identifies it.
	Key string
	// Local identifies a larger class: Pods that filters which look at a single node can't
	// tell apart. Tasks that ask for the same differ in their labels, at which only filters
	// look that compare Pods with each other.
	Local string
	// Plain is true for Pods for which everything that filters look at is in the Pod and
	// in the node: no volumes, no host ports, no resource claims, no constraints between
	// Pods of their own.
	Plain bool
}

// looksAt is what filters look at in a Pod.
type looksAt struct {
	Namespace   string                            `json:"ns"`
	Labels      map[string]string                 `json:"l,omitempty"`
	Selector    map[string]string                 `json:"s,omitempty"`
	Affinity    *corev1.Affinity                  `json:"a,omitempty"`
	Tolerations []corev1.Toleration               `json:"t,omitempty"`
	Spread      []corev1.TopologySpreadConstraint `json:"sp,omitempty"`
	Volumes     []corev1.Volume                   `json:"v,omitempty"`
	Ports       []corev1.ContainerPort            `json:"p,omitempty"`
	Requests    corev1.ResourceList               `json:"r,omitempty"`
	OS          *corev1.PodOS                     `json:"os,omitempty"`
	Runtime     *string                           `json:"rt,omitempty"`
	// Features are those that the Pod's node must have.
	Features []string `json:"f,omitempty"`
	// Self is set for a Pod that is a class of its own.
	Self string `json:"self,omitempty"`
}

// numbering are the labels that only number the Pods of a task or workload.
var numbering = [...]string{ //nolint:gochecknoglobals // a constant
	v1.LabelIndex, "batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index",
}

// ClassOf returns the class of a Pod. Labels that number Pods, or name them, don't count: who
// selects by them is asked again when the Pod is scheduled.
func ClassOf(pod *corev1.Pod) Class {
	spec := &pod.Spec
	looks := looksAt{
		Namespace: pod.Namespace, Labels: withoutNumbers(pod), Selector: spec.NodeSelector, Affinity: spec.Affinity,
		Tolerations: spec.Tolerations, Spread: spec.TopologySpreadConstraints, OS: spec.OS, Runtime: spec.RuntimeClassName,
		Requests: snapshot.Requests(pod),
		Ports:    hostPorts(pod), Features: featuresOf(pod),
	}
	looks.Volumes = slices.DeleteFunc(slices.Clone(spec.Volumes), isLocalToThePod)
	own := len(spec.ResourceClaims) > 0 || slices.ContainsFunc(looks.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
	if own {
		looks.Self = string(pod.UID)
	}
	plain := !own && len(looks.Volumes) == 0 && len(looks.Ports) == 0 && len(looks.Spread) == 0 &&
		(spec.Affinity == nil || spec.Affinity.PodAffinity == nil && spec.Affinity.PodAntiAffinity == nil)
	return Class{Key: looks.key(pod), Local: looks.atNodes().key(pod), Plain: plain}
}

// atNodes returns what filters look at that compare the Pod with a single node.
func (l *looksAt) atNodes() *looksAt {
	local := *l
	local.Labels, local.Spread, local.Affinity = nil, nil, nil
	if l.Affinity != nil && l.Affinity.NodeAffinity != nil {
		local.Affinity = &corev1.Affinity{NodeAffinity: l.Affinity.NodeAffinity}
	}
	if len(l.Volumes) == 0 {
		local.Namespace = "" // claims are of a namespace
	}
	return &local
}

// key returns a hash: many keys are kept.
func (l *looksAt) key(pod *corev1.Pod) string {
	text, err := json.Marshal(l)
	if err != nil {
		return string(pod.UID) // can't happen: these types can be encoded
	}
	hash := sha256.Sum256(text)
	return string(hash[:])
}

// featuresOf returns the features that a Pod's node must declare. For an old version of
// Kubernetes these are all of them: later on, some are a matter of course.
func featuresOf(pod *corev1.Pod) []string {
	known, oldest := nodedeclaredfeatures.DefaultFramework, version.MajorMinor(1, 0)
	needed, err := known.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: &pod.Spec}, oldest)
	if err != nil {
		return nil // can't happen: the version is set
	}
	names, err := known.Unmap(needed)
	if err != nil {
		return nil // can't happen: the set is of the same framework
	}
	return names
}

// withoutNumbers returns a Pod's labels but those that number the Pods of a workload, or
// repeat the Pod's name.
func withoutNumbers(pod *corev1.Pod) map[string]string {
	kept := make(map[string]string, len(pod.Labels))
	for key, value := range pod.Labels {
		if value != pod.Name && !slices.Contains(numbering[:], key) {
			kept[key] = value
		}
	}
	return kept
}

// hostPorts returns the ports that a Pod needs on its node.
func hostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for _, port := range containers[i].Ports {
				if port.HostPort > 0 {
					ports = append(ports, port)
				}
			}
		}
	}
	return ports
}

// isLocalToThePod reports whether a volume is made for its Pod on any node.
func isLocalToThePod(volume corev1.Volume) bool {
	return volume.EmptyDir != nil || volume.ConfigMap != nil || volume.Secret != nil || volume.Projected != nil ||
		volume.DownwardAPI != nil || volume.HostPath != nil || volume.Image != nil
}
