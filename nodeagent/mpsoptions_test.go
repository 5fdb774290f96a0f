// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestWhoRunsMPS(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args      []string
		directory string
		managed   bool
	}{
		"nobody by default":                         {nil, "", false},
		"somebody else, if there is a directory":    {[]string{"--mps-pipe-directory=/run/mps"}, "/run/mps", false},
		"somebody else":                             {[]string{"--mps=external", "--mps-pipe-directory=/run/mps"}, "/run/mps", false},
		"the agent":                                 {[]string{"--mps=managed", "--mps-pipe-directory=/run/mps"}, "/run/mps", true},
		"nobody, even if the directory stays given": {[]string{"--mps=off", "--mps-pipe-directory=/run/mps"}, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, err := parse(t, nil, append([]string{"--node-name=n1"}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			if got := opts.mps.directory(); got != test.directory || (opts.mps.mode == mpsManaged) != test.managed {
				t.Errorf("directory %q, mode %q", got, opts.mps.mode)
			}
		})
	}
}
