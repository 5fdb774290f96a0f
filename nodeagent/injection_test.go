// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

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
		"no hook":                                {func(f *facts) { f.ready = false }, strategyEnvVar, "no nvidia-cdi-hook"},
		"a directory that can't be written":      {func(f *facts) { f.unwritable = failed }, strategyEnvVar, "it failed"},
		"the API server does not answer":         {func(f *facts) { f.runtime, f.unknown = "", failed }, strategyEnvVar, "it failed"},
		"nor does it, but CDI was in use before": {func(f *facts) { f.runtime, f.unknown, f.describedBefore = "", failed, true }, strategyCDI, "chosen before"},
		"the runtime was replaced by an old one": {func(f *facts) { f.runtime, f.describedBefore = "containerd://1.6.20", true }, strategyEnvVar, "not known to support CDI"},
		"somebody else describes the GPUs":       {func(f *facts) { f.kind, f.ready = "nvidia.com/gpu", false }, strategyCDI, "--cdi-kind is set"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &facts{kind: cdi.Kind, runtime: "containerd://2.1.4", ready: true}
			test.change(f)
			strategy, reason := choose(f)
			if strategy != test.strategy || !strings.Contains(reason, test.reason) {
				t.Errorf("%s, since %s; want %s, since %s", strategy, reason, test.strategy, test.reason)
			}
		})
	}
}
