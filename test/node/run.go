// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"falldio.github.io/gpu-controller/test/cluster"
)

const (
	// requiredVariable makes the tests fail instead of being skipped.
	requiredVariable = "REALNODE_REQUIRED"
	// keepVariable keeps the directory of a run that failed.
	keepVariable = "REALNODE_KEEP"
	// directoryVariable is set for the process inside the namespaces, to the
	// directory of its files.
	directoryVariable = "REALNODE_DIRECTORY"
	// cgroupVariable is the name of the node's control group.
	cgroupVariable = "REALNODE_CGROUP"
)

// Setup is what tests need of their node.
type Setup struct {
	// Build builds in dir what the tests need besides the programs of "make build" and
	// containerd. It is quick if everything is up to date.
	Build func(dir string) error
	// ClusterArgs returns further arguments of "localcluster up", after it has written in dir
	// what they refer to.
	ClusterArgs func(dir string) ([]string, error)
	// Archives returns the archives of images that the node has.
	Archives func(dir string) ([]string, error)
	// Ready receives the node before the tests run.
	Ready func(*Node)
	// Missing receives, instead, what this machine lacks for a real node.
	Missing func(reason string)
}

// Run runs the tests of a package on a real node of their own, and returns the exit code. To be
// called by TestMain, after the flags have been parsed.
func Run(m *testing.M, setup *Setup) int {
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run() // no test will run
	}
	if dir := os.Getenv(directoryVariable); dir != "" {
		return runInside(m, setup, dir, os.Getenv(cgroupVariable))
	}
	if err := completePath(); err != nil {
		return fail(err)
	}
	missing := missingHere()
	switch {
	case missing == "":
		return runOutside(setup)
	case os.Getenv(requiredVariable) != "":
		return fail(fmt.Errorf("a real node cannot run here: %s", missing))
	default:
		setup.Missing(missing)
		return m.Run() // each test logs why it is skipped
	}
}

// runOutside prepares what the namespaces need and runs the tests in them.
func runOutside(setup *Setup) int {
	if err := removeLeftovers(); err != nil {
		return fail(err)
	}
	dir, release, err := makeDirectory()
	if err != nil {
		return fail(err)
	}
	defer release()
	code := runIn(setup, dir)
	if code != 0 && os.Getenv(keepVariable) != "" {
		if err := os.Remove(filepath.Join(dir, lockFile)); err != nil {
			return fail(err)
		}
		fmt.Fprintf(os.Stderr, "realnode: the logs are kept in %s\n", dir)
		return code
	}
	if err := os.RemoveAll(dir); err != nil {
		return fail(err)
	}
	return code
}

func runIn(setup *Setup, dir string) int {
	if err := errors.Join(build(dir), setup.Build(dir)); err != nil {
		return fail(err)
	}
	cgroup := filepath.Base(dir)
	if err := makeCgroups(cgroup); err != nil {
		return fail(err)
	}
	code, err := runInNamespaces(directoryVariable+"="+dir, cgroupVariable+"="+cgroup)
	if err := errors.Join(err, removeCgroups(cgroup)); err != nil {
		return fail(err)
	}
	return code
}

// runInside starts the node and runs the tests. All processes end together with
// this one.
func runInside(m *testing.M, setup *Setup, dir, cgroup string) int {
	// Before containerd of the machine, if it has one.
	if err := os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH")); err != nil {
		return fail(err)
	}
	if err := enterNamespaces(dir); err != nil {
		return fail(err)
	}
	programs, err := cluster.ProgramsFromEnvironment()
	if err != nil {
		return fail(err)
	}
	args, err := setup.ClusterArgs(dir)
	if err != nil {
		return fail(err)
	}
	archives, err := setup.Archives(dir)
	if err != nil {
		return fail(err)
	}
	n := newNode(dir, cgroup, append(programs, args...)...)
	if err := n.start(archives); err != nil {
		n.PrintLogs(os.Stderr)
		return fail(err)
	}
	setup.Ready(n)
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "realnode:", err)
	return 1
}
