// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/settings"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi/nvidia"
)

func TestWhatLimitsOfMemoryNeed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		limits, strategy, kind string
		source                 string
		can                    bool
		problem                string // part of it; empty if there is none
	}{
		"nothing without limits":              {memoryLimitsOff, strategyEnvVar, cdi.Kind, settings.SourceNVML, false, ""},
		"CDI":                                 {memoryLimitsDriver, strategyEnvVar, cdi.Kind, settings.SourceNVML, false, "needs --device-list-strategy=cdi-cri"},
		"that the agent describes the GPU":    {memoryLimitsDriver, strategyCDI, "nvidia.com/gpu", settings.SourceNVML, false, "with --cdi-kind=falldio.com/gpu"},
		"nothing of the node in a simulation": {memoryLimitsDriver, strategyCDI, cdi.Kind, settings.SourceSimulated, true, ""},
		// It also fails on a machine with control groups of version 1.
		"NVIDIA's hook": {memoryLimitsDriver, strategyCDI, cdi.Kind, settings.SourceNVML, false, "--share-memory-limits=driver: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := newOptions()
			opts.memoryLimits, opts.injection.cdiKind, opts.Source = test.limits, test.kind, test.source
			can, err := memoryLimits(opts, test.strategy, &nvidia.Options{HostRoot: t.TempDir(), HookPath: "/usr/bin/nvidia-cdi-hook"})
			if can != test.can || (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%v, error %v, want %v, %q", can, err, test.can, test.problem)
			}
		})
	}
}
