// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// cgroupLimit is how long control groups may be busy after their processes have
// ended.
const cgroupLimit = 10 * time.Second

// makeCgroups creates a control group of this name in every hierarchy.
func makeCgroups(name string) error {
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		err := errors.Join(delegate(hierarchy), os.MkdirAll(filepath.Join(hierarchy, name), 0o755))
		if err != nil {
			return errors.Join(err, removeCgroups(name))
		}
	}
	return nil
}

// delegate enables, in a v2 hierarchy, the controllers that the kubelet needs. On
// most machines they are already enabled.
func delegate(hierarchy string) error {
	available, err := os.ReadFile(filepath.Join(hierarchy, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // v1
	}
	if err != nil {
		return err
	}
	control := filepath.Join(hierarchy, "cgroup.subtree_control")
	delegated, err := os.ReadFile(control)
	if err != nil {
		return err
	}
	for _, controller := range []string{"cpu", "cpuset", "memory", "hugetlb", "pids"} {
		if slices.Contains(strings.Fields(string(available)), controller) && !slices.Contains(strings.Fields(string(delegated)), controller) {
			if err := os.WriteFile(control, []byte("+"+controller), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroups removes the group of this name, with all below it, from every
// hierarchy. They are the only thing that outlives the namespaces.
func removeCgroups(name string) error {
	hierarchies, err := cgroupHierarchies()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(cgroupLimit)
	for _, hierarchy := range hierarchies {
		for {
			err := removeCgroup(filepath.Join(hierarchy, name))
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("removing control groups: %w", err)
			}
			time.Sleep(PollEvery)
		}
	}
	return nil
}

// removeCgroup removes a group and all below it, deepest first. The kernel removes
// the files in them.
func removeCgroup(path string) error {
	var folders []string
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			folders = append(folders, path)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, folder := range slices.Backward(folders) {
		if err := syscall.Rmdir(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "rmdir", Path: folder, Err: err}
		}
	}
	return nil
}

// cgroupHierarchies returns where the hierarchies are mounted: one with control
// groups v2, one for each controller with v1.
func cgroupHierarchies() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	var hierarchies []string
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			hierarchies = append(hierarchies, fields[1])
		}
	}
	if len(hierarchies) == 0 {
		return nil, errors.New("none is mounted")
	}
	return hierarchies, nil
}
