// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// GangLabels are the labels and annotations of Pods about their gang.
type GangLabels struct {
	// Name is the gang's name, with the namespace: "default/train", or that of a PodGroup:
	// "default/podgroup.scheduling.k8s.io/train".
	Name string
	// Min is how many Pods start together.
	Min int
	// Level is the name of a topology level, or empty.
	Level string
	// Required makes it mandatory that all Pods are in one domain.
	Required bool
}

// statesGang reports whether a Pod has labels of ours about a gang.
func statesGang(pod *corev1.Pod) bool {
	return pod.Labels[v1.LabelPodGroup] != "" || pod.Labels[v1.LabelMinAvailable] != ""
}

// Gang returns what a Pod itself specifies about its gang; nil for a Pod without a gang, and
// for one that names a PodGroup, which specifies it. An error names what is wrong and how to
// fix it.
func Gang(pod *corev1.Pod) (*GangLabels, error) {
	if !statesGang(pod) {
		return gangWithoutObject(pod)
	}
	name, text := cmp.Or(pod.Labels[v1.LabelPodGroup], pod.Labels[v1.LabelTask]), pod.Labels[v1.LabelMinAvailable]
	if name == "" {
		return nil, fmt.Errorf("label %s: is missing: it names the gang, and %s is set", v1.LabelPodGroup, v1.LabelMinAvailable)
	}
	minimum, err := strconv.Atoi(text)
	if err != nil || minimum < 1 {
		return nil, fmt.Errorf("label %s: must be the number of Pods that start together, at least 1, is %q", v1.LabelMinAvailable, text)
	}
	gang := &GangLabels{Name: pod.Namespace + "/" + name, Min: minimum, Level: pod.Annotations[v1.AnnotationTopologyLevel]}
	switch mode := pod.Annotations[v1.AnnotationTopologyMode]; mode {
	case "", v1.TopologyPreferred:
	case v1.TopologyRequired:
		gang.Required = true
	default:
		return nil, fmt.Errorf("annotation %s: must be %s or %s, is %q", v1.AnnotationTopologyMode, v1.TopologyRequired, v1.TopologyPreferred, mode)
	}
	if gang.Required && gang.Level == "" {
		return nil, errors.New("annotation " + v1.AnnotationTopologyLevel + ": is missing: the topology is required")
	}
	return gang, nil
}
