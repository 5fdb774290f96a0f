// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attribution finds out how much of a GPU containers use, from what processes use and
// from the containers that these run in.
package attribution

import (
	"io/fs"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/cgroup"
)

// Container is a container of a Pod.
type Container struct {
	Namespace, Pod string
	// Name is empty if only the Pod is known.
	Name string
}

// Containers finds the containers of Pods.
type Containers struct {
	byID  map[string]Container
	byPod map[types.UID]Container
}

// NewContainers returns the containers of Pods. A container that has just started may not be
// in the Pod's status yet; then only its Pod is found.
func NewContainers(pods []*corev1.Pod) *Containers {
	c := &Containers{byID: map[string]Container{}, byPod: map[types.UID]Container{}}
	for _, pod := range pods {
		of := Container{Namespace: pod.Namespace, Pod: pod.Name}
		c.byPod[pod.UID] = of
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range statuses {
				// "containerd://<ID>"; empty before the container has been created.
				if _, id, found := strings.Cut(statuses[i].ContainerID, "://"); found {
					of.Name = statuses[i].Name
					c.byID[id] = of
				}
			}
		}
	}
	return c
}

// Find returns the container that a control group belongs to, if it is one of these Pods'.
func (c *Containers) Find(group cgroup.Container) (container Container, found bool) {
	if container, found = c.byID[group.ID]; found {
		return container, true
	}
	container, found = c.byPod[group.Pod]
	return container, found
}

// OfProcess returns the container of a process in a procfs, from a small file.
func (c *Containers) OfProcess(proc fs.FS, pid int) (container Container, found bool) {
	content, err := fs.ReadFile(proc, strconv.Itoa(pid)+"/cgroup")
	if err != nil { // it has ended
		return Container{}, false
	}
	group, _ := cgroup.Parse(string(content))
	return c.Find(group)
}
