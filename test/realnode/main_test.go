// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
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

var (
	// shared is the node of all tests. TestMain sets it before any test runs.
	shared *realNode
	// missing is which prerequisites of a real node this machine lacks; "" if none.
	missing string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	if flag.Lookup("test.list").Value.String() != "" {
		return m.Run() // no test will run
	}
	if dir := os.Getenv(directoryVariable); dir != "" {
		return runInside(m, dir, os.Getenv(cgroupVariable))
	}
	if err := completePath(); err != nil {
		return fail(err)
	}
	missing = missingHere()
	switch {
	case missing == "":
		return runOutside()
	case os.Getenv(requiredVariable) != "":
		return fail(fmt.Errorf("a real node cannot run here: %s", missing))
	default:
		return m.Run() // each test logs why it is skipped
	}
}

// runOutside prepares what the namespaces need and runs the tests in them.
func runOutside() int {
	if err := removeLeftovers(); err != nil {
		return fail(err)
	}
	dir, release, err := makeDirectory()
	if err != nil {
		return fail(err)
	}
	defer release()
	code := runIn(dir)
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

func runIn(dir string) int {
	if err := build(dir); err != nil {
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
func runInside(m *testing.M, dir, cgroup string) int {
	// Before containerd of the machine, if it has one.
	if err := os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH")); err != nil {
		return fail(err)
	}
	if err := enterNamespaces(dir); err != nil {
		return fail(err)
	}
	shared = newRealNode(dir, cgroup)
	if err := shared.start(); err != nil {
		shared.printLogs(os.Stderr)
		return fail(err)
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "realnode:", err)
	return 1
}
