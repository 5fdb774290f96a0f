// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/clock"
)

func TestAMissingProgramIsAnErrorUnlessItIsBeingBuilt(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "gpu-scheduler")
	options := Options{Scheduler: missing}
	if err := options.validate(); err == nil || !strings.Contains(err.Error(), "build it with `make build`") {
		t.Errorf("error %v, want one that says how to build the scheduler", err)
	}
	options.Complete = filepath.Join(filepath.Dir(missing), "localcluster")
	if err := options.validate(); err != nil {
		t.Errorf("a scheduler that is being built is refused: %v", err)
	}
	options.NodeAgent = missing
	if err := options.validate(); err == nil {
		t.Error("a node agent that is missing is accepted: the page needs it at once")
	}
}

func TestTheStartWaitsForProgramsThatAreBeingBuilt(t *testing.T) {
	dir := t.TempDir()
	controller, complete := filepath.Join(dir, "gpu-controller"), filepath.Join(dir, "localcluster")
	build := func(path string) {
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Error(err)
		}
	}
	build(controller)
	// localcluster is built once it is said that it is missing.
	said := &onWrite{wanted: "are built: localcluster\n", call: func() { build(complete) }}
	c := &cluster{
		console:   newConsole(said, clock.RealClock{}),
		dashboard: "http://page",
		options:   Options{Controller: controller, Complete: complete},
	}
	if err := c.awaitPrograms(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(complete); err != nil {
		t.Errorf("did not wait for localcluster: %v", err)
	}
	if !strings.Contains(said.String(), "http://page") {
		t.Errorf("said %q, want the address of the page", said)
	}
}

// onWrite calls a function when something wanted is written.
type onWrite struct {
	bytes.Buffer
	wanted string
	call   func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	if strings.HasSuffix(string(p), w.wanted) {
		w.call()
	}
	return w.Buffer.Write(p)
}
