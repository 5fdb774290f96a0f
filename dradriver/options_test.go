// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	profile := filepath.Join(t.TempDir(), "profile.yaml")
	if err := os.WriteFile(profile, []byte("count: -1"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"no node":                   {nil, "--node-name: must be given, or NODE_NAME be set"},
		"an argument":               {[]string{"--node-name=n", "x"}, `unexpected arguments ["x"]`},
		"an unknown source":         {[]string{"--node-name=n", "--source=amd"}, "--source=amd: must be auto, nvml or simulated"},
		"an unknown effect":         {[]string{"--node-name=n", "--taint-effect=PreferNoSchedule"}, "--taint-effect=PreferNoSchedule: must be NoSchedule or NoExecute"},
		"no polls":                  {[]string{"--node-name=n", "--poll-interval=0s"}, "--poll-interval=0s: must be greater than 0"},
		"a path of its own":         {[]string{"--node-name=n", "--cdi-spec-dir=cdi"}, "--cdi-spec-dir=cdi: must be an absolute path"},
		"faults of real GPUs":       {[]string{"--node-name=n", "--simulation-faults=f"}, "--simulation-faults: the GPUs are not simulated"},
		"a policy that says little": {[]string{"--node-name=n", "--xid-policy=94"}, "--xid-policy: "},
		"a profile of no machine":   {[]string{"--node-name=n", "--simulation-profile=" + profile}, "--simulation-profile: "},
		"nodes that nobody names":   {[]string{"--simulated-nodes=/not/there"}, "--simulated-nodes: "},
		"a model that is no label":  {[]string{"--node-name=n", "--gpu-model=a b"}, "--gpu-model=a b: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := newOptions()
			flags := opts.flags()
			if err := flags.Parse(test.args); err != nil {
				t.Fatal(err)
			}
			if err := opts.complete(flags.Args()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	opts := newOptions()
	opts.nodeName = "n"
	if err := opts.complete(nil); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}
