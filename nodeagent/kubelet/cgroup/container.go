// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cgroup finds out in which container a process runs, from the names of its control
// groups.
//
// The kubelet has a group for each Pod, whose name has the Pod's UID, and the container runtime
// has one for each container below it, whose name has the container's ID. How the names are
// made depends on who manages the groups (systemd, or the kubelet and the runtime by the file
// system), on the runtime, and on the version of control groups:
//
//	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope
//	/kubepods/burstable/pod<uid>/<id>
//
// See ToSystemd and ToCgroupfs in the kubelet's pkg/kubelet/cm/cgroup_manager_linux.go, and
// https://www.kernel.org/doc/html/latest/admin-guide/cgroup-v2.html#namespace for what a process
// in a cgroup namespace sees: paths relative to its own group.
package cgroup

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Container is a container as its control group names it.
type Container struct {
	// ID is the container runtime's ID, 64 hexadecimal digits; empty if the process is in a
	// Pod's group and in none of its containers'.
	ID string
	// Pod is the UID of its Pod; empty if that is not visible: in a cgroup namespace, for the
	// containers of the same Pod. For a static Pod it is not the UID that the API server has.
	Pod types.UID
}

var (
	// podGroup is the name of a Pod's group. systemd's names have the names of the groups
	// above, and no hyphens in the UID. The UID of a static Pod is a checksum.
	podGroup = regexp.MustCompile(`^(?:[A-Za-z0-9_-]+-)?pod([0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?$`)
	// containerGroup is the name of a container's group. A runtime may put its own name
	// before the ID: cri-containerd-, crio-, docker-.
	containerGroup = regexp.MustCompile(`^(?:[a-z][a-z0-9-]*-)?([0-9a-f]{64})(?:\.scope)?$`)
)

// Parse returns the container of a process, from its /proc/<pid>/cgroup. found is false if the
// process is in none.
func Parse(content string) (container Container, found bool) {
	for line := range strings.Lines(content) {
		// Hierarchy, controllers and path; with version 2, "0::<path>".
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		if of, in := parsePath(fields[2]); in && (!found || container.ID == "") {
			container, found = of, true
		}
	}
	return container, found
}

// parsePath returns the outermost Pod in a path and the first container in it. There may be more
// of them below: containers have groups of their own, for a container runtime in them.
func parsePath(path string) (container Container, found bool) {
	// A colon separates the names if the runtime was told of a slice but does not use systemd.
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == ':' }) {
		if match := podGroup.FindStringSubmatch(name); match != nil && container.Pod == "" {
			// What is above a Pod's group is no container of it, but that of a whole node.
			container = Container{Pod: types.UID(strings.ReplaceAll(match[1], "_", "-"))}
		} else if match := containerGroup.FindStringSubmatch(name); match != nil && container.ID == "" {
			container.ID = match[1]
		}
	}
	return container, container != Container{}
}
