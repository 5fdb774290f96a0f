// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ProcessWith returns the id of the process for whose arguments a condition holds.
func ProcessWith(matches func(args []string) bool) (int, error) {
	pid := 0
	err := eachProcess(func(id int, args []string) bool {
		if matches(args) {
			pid = id
		}
		return pid == 0
	})
	if err == nil && pid == 0 {
		err = os.ErrNotExist
	}
	return pid, err
}

// eachProcess calls visit with the arguments of each process until it returns false.
func eachProcess(visit func(id int, args []string) (goOn bool)) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil || len(line) == 0 {
			continue // it has ended
		}
		if !visit(id, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")) {
			break
		}
	}
	return nil
}

// PID returns the id of a process of the cluster by the name of its component, as package
// localcluster/names has it. Between two runs of the process there is none.
func (c *Cluster) PID(component string) (int, error) {
	pid, _, err := c.find(component)
	return pid, err
}

// find returns the id and the arguments of a process of the cluster. All of them are in the group that
// the cluster's janitor leads.
func (c *Cluster) find(component string) (pid int, arguments []string, err error) {
	group, err := ProcessWith(func(args []string) bool { return len(args) > 2 && args[1] == "janitor" && args[2] == c.Dir })
	if err != nil {
		return 0, nil, fmt.Errorf("the janitor of the cluster in %s: %w", c.Dir, err)
	}
	err = eachProcess(func(id int, args []string) bool {
		if of, err := syscall.Getpgid(id); err == nil && of == group && isComponent(args, component) {
			pid, arguments = id, args
		}
		return pid == 0
	})
	if err == nil && pid == 0 {
		err = fmt.Errorf("the process %s of the cluster in %s: %w", component, c.Dir, os.ErrNotExist)
	}
	return pid, arguments, err
}

// isComponent reports whether arguments are those of a component: "localcluster component NAME ARGS",
// or one of our own programs.
func isComponent(args []string, component string) bool {
	return len(args) > 2 && args[1] == "component" && args[2] == component || filepath.Base(args[0]) == component
}

// EtcdAddress returns the address at which the cluster's etcd serves clients.
func (c *Cluster) EtcdAddress() (string, error) {
	_, args, err := c.find("etcd")
	if err != nil {
		return "", err
	}
	for _, arg := range args {
		if address, found := strings.CutPrefix(arg, "--listen-client-urls="); found {
			return address, nil
		}
	}
	return "", fmt.Errorf("the cluster in %s: etcd has no address", c.Dir)
}
