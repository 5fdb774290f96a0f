// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/util/uuid"
)

const (
	// bootID is the setting that identifies the current boot.
	bootID = "kernel/random/boot_id"
	// podCgroups is the control group in which the kubelet has those of Pods.
	podCgroups = "kubepods"
)

// KillRuntime ends containerd and all containers at once. containerd can't learn how they end.
func (n *Node) KillRuntime() error {
	return errors.Join(n.Containerd.Kill(), killContainers())
}

// StartRuntime starts containerd again.
func (n *Node) StartRuntime() error {
	if err := n.Containerd.Start(); err != nil {
		return err
	}
	return n.WaitForContainerd()
}

// PowerOff ends the kubelet, containerd and all containers at once, and takes from the node what it loses without
// power: its mounts, its control groups and what is in /run. When its programs are started, it has another boot ID.
// The control plane runs on.
func (n *Node) PowerOff() error {
	err := errors.Join(n.Kubelet.Kill(), n.KillRuntime(), unmountBelow(KubeletDirectory), removeCgroups(filepath.Join(n.cgroup, podCgroups)))
	if err != nil {
		return err
	}
	if err := syscall.Unmount("/run", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting /run: %w", err)
	}
	if err := hideFolder("/run"); err != nil {
		return err
	}
	return bind(n.Dir, "boot-id", string(uuid.NewUUID())+"\n", filepath.Join("/proc/sys", bootID))
}

// killContainers kills all processes in containers, and containerd's shims.
func killContainers() error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	var problems []error
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !isOfContainers(entry.Name()) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			problems = append(problems, fmt.Errorf("killing process %d: %w", pid, err))
		}
	}
	return errors.Join(problems...)
}

// isOfContainers reports whether a process runs in a container, or is a shim. One that has just ended is neither.
func isOfContainers(pid string) bool {
	cgroups, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
	if err != nil {
		return false
	}
	name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
	return err == nil && (bytes.Contains(cgroups, []byte("/"+podCgroups+"/")) || strings.HasPrefix(string(name), "containerd-shim"))
}

// unmountBelow unmounts all that is mounted in a folder.
func unmountBelow(folder string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var problems []error
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[1], folder+"/") {
			continue
		}
		if err := syscall.Unmount(fields[1], syscall.MNT_DETACH); err != nil {
			problems = append(problems, fmt.Errorf("unmounting %s: %w", fields[1], err))
		}
	}
	return errors.Join(problems...)
}
