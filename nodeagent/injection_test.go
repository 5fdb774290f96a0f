// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
)

func TestHowContainersGetTheirGPUs(t *testing.T) {
	t.Parallel()
	failed := errors.New("it failed")
	tests := map[string]struct {
		change   func(*facts)
		strategy string
		reason   string
	}{
		"all that it needs is there":             {func(*facts) {}, strategyCDI, "containerd://2.1.4 supports CDI"},
		"an old runtime":                         {func(f *facts) { f.runtime = "containerd://1.7.24" }, strategyEnvVar, "if it is, set --device-list-strategy=cdi-cri"},
		"no hook":                                {func(f *facts) { f.hooked = false }, "", "NVIDIA's Container Toolkit is not on the node"},
		"an old toolkit":                         {func(f *facts) { f.hooked, f.withRuntime = false, true }, strategyEnvVar, "no nvidia-cdi-hook"},
		"a directory that can't be written":      {func(f *facts) { f.unwritable = failed }, strategyEnvVar, "it failed"},
		"the API server does not answer":         {func(f *facts) { f.runtime, f.unknown = "", failed }, "", "it failed"},
		"nor does it, but CDI was in use before": {func(f *facts) { f.runtime, f.unknown, f.describedBefore = "", failed, true }, strategyCDI, "chosen before"},
		"the runtime was replaced by an old one": {func(f *facts) { f.runtime, f.describedBefore = "containerd://1.6.20", true }, strategyEnvVar, "not known to support CDI"},
		"somebody else describes the GPUs":       {func(f *facts) { f.kind, f.hooked = "nvidia.com/gpu", false }, strategyCDI, "--cdi-kind is set"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &facts{kind: cdi.Kind, runtime: "containerd://2.1.4", hooked: true}
			test.change(f)
			strategy, reason := choose(f)
			if strategy != test.strategy || !strings.Contains(reason, test.reason) {
				t.Errorf("%s, since %s; want %s, since %s", strategy, reason, test.strategy, test.reason)
			}
		})
	}
}

// node is a directory that stands for a node's root.
type node struct {
	*testing.T
	root, specs string
}

func newNode(t *testing.T) *node {
	t.Helper()
	return &node{t, t.TempDir(), filepath.Join(t.TempDir(), "cdi")}
}

func (n *node) install(path string) {
	n.Helper()
	path = filepath.Join(n.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		n.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		n.Fatal(err)
	}
}

// injection returns an injection for the node, and what it has reported.
func (n *node) injection(runtime func() (string, error), args ...string) (i *injection, reported *[]string) {
	n.Helper()
	opts, err := parse(n.T, nil, append([]string{"--node-name=n", "--host-root=" + n.root, "--cdi-spec-dir=" + n.specs}, args...)...)
	if err != nil {
		n.Fatal(err)
	}
	i, err = newInjection(n.Context(), nil, opts, clock.RealClock{})
	if err != nil {
		n.Fatal(err)
	}
	reported = &[]string{}
	i.report = func(_ context.Context, problem error) { *reported = append(*reported, problem.Error()) }
	looked := &looking{opts: opts, clock: clock.RealClock{}, runtime: func(context.Context) (string, error) { return runtime() }}
	i.choose = looked.choose
	return i, reported
}

var oneGPU = &gpu.Snapshot{Devices: []gpu.Device{{Info: gpu.Info{UUID: "GPU-a"}}}}

// A new node is started, then the agent, and then NVIDIA's toolkit is installed.
func TestTheAgentLooksUntilContainersCanGetGPUs(t *testing.T) {
	t.Parallel()
	const toolkit = "/usr/local/nvidia/toolkit/"
	for name, test := range map[string]struct {
		args    []string
		first   string // what is reported first
		install []string
		kind    string
	}{
		"with a toolkit, by CDI":               {nil, "NVIDIA's Container Toolkit is not on the node", []string{"nvidia-container-runtime", "nvidia-cdi-hook"}, cdi.Kind},
		"whose hook is copied last":            {nil, "NVIDIA's Container Toolkit is not on the node", []string{"nvidia-container-runtime", "", "nvidia-cdi-hook"}, cdi.Kind},
		"by CDI only":                          {[]string{"--device-list-strategy=cdi-cri"}, "--device-list-strategy=cdi-cri: the node has no nvidia-cdi-hook", []string{"nvidia-cdi-hook"}, cdi.Kind},
		"with an old toolkit, by the variable": {nil, "NVIDIA's Container Toolkit is not on the node", []string{"nvidia-container-runtime"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			i, reported := n.injection(func() (string, error) { return "containerd://2.1.4", nil }, test.args...)
			i.update(t.Context(), &gpu.Snapshot{})
			if i.ready() != nil || len(*reported) > 0 {
				t.Errorf("a node without GPUs: %v, %v", i.ready(), *reported)
			}
			for range 3 {
				i.update(t.Context(), oneGPU)
			}
			if i.started() || i.available("GPU-a") || i.ready() == nil {
				t.Errorf("GPUs are given out unchecked: started %v, available %v, ready %v", i.started(), i.available("GPU-a"), i.ready())
			}
			if len(*reported) != 1 || !strings.HasPrefix((*reported)[0], test.first) {
				t.Errorf("reported %q, want once %q", *reported, test.first)
			}
			for _, file := range test.install {
				if file == "" {
					i.update(t.Context(), oneGPU)
					continue
				}
				n.install(toolkit + file)
			}
			for range 2 {
				i.update(t.Context(), oneGPU)
			}
			if i.chosen.Load() == nil || i.kind() != test.kind {
				t.Errorf("kind %q, ready %v, want kind %q", i.kind(), i.ready(), test.kind)
			}
		})
	}
}

func TestTheAgentWaitsForTheContainerRuntimeToBeKnown(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.install("/usr/bin/nvidia-cdi-hook")
	version, unknown := "", errors.New("the API server does not answer")
	i, _ := n.injection(func() (string, error) { return version, unknown })
	i.update(t.Context(), oneGPU)
	if i.started() || i.ready() == nil || !strings.Contains(i.ready().Error(), "the API server does not answer") {
		t.Errorf("started %v, ready %v", i.started(), i.ready())
	}
	version, unknown = "containerd://1.7.24", nil
	i.update(t.Context(), oneGPU)
	if !i.started() || i.kind() != "" || i.ready() != nil {
		t.Errorf("started %v, kind %q, ready %v", i.started(), i.kind(), i.ready())
	}
}
