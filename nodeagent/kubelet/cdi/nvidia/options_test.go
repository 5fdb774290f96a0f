// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nvidia

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLocate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		files  []string
		given  Options
		want   Options
		absent bool
	}{
		"NVIDIA's packages": {
			files: []string{"/usr/bin/nvidia-smi", "/usr/bin/nvidia-cdi-hook"},
			want:  Options{DriverRoot: "/", HookPath: "/usr/bin/nvidia-cdi-hook"},
		},
		"NVIDIA's GPU Operator": {
			files: []string{"/run/nvidia/driver/usr/bin/nvidia-smi", "/usr/local/nvidia/toolkit/nvidia-cdi-hook"},
			want:  Options{DriverRoot: "/run/nvidia/driver", HookPath: "/usr/local/nvidia/toolkit/nvidia-cdi-hook"},
		},
		"the GPU Operator on a node that has the driver itself": {
			files: []string{"/usr/bin/nvidia-smi", "/usr/local/nvidia/toolkit/nvidia-cdi-hook"},
			want:  Options{DriverRoot: "/", HookPath: "/usr/local/nvidia/toolkit/nvidia-cdi-hook"},
		},
		"what is given counts": {
			files: []string{"/usr/bin/nvidia-smi", "/usr/bin/nvidia-cdi-hook", "/opt/hook"},
			given: Options{DriverRoot: "/opt/driver", HookPath: "/opt/hook"},
			want:  Options{DriverRoot: "/opt/driver", HookPath: "/opt/hook"},
		},
		"a given hook that is not there": {
			files:  []string{"/usr/bin/nvidia-cdi-hook"},
			given:  Options{HookPath: "/opt/hook"},
			want:   Options{DriverRoot: "/", HookPath: "/opt/hook"},
			absent: true,
		},
		"a directory is no hook": {
			files:  []string{"/usr/bin/nvidia-cdi-hook/file"},
			want:   Options{DriverRoot: "/"},
			absent: true,
		},
		"nothing": {want: Options{DriverRoot: "/"}, absent: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, file := range test.files {
				touch(t, filepath.Join(dir, file))
			}
			test.given.HostRoot, test.want.HostRoot = dir, dir
			got, found := test.given.Locate()
			if diff := cmp.Diff(test.want, got); diff != "" || found == test.absent {
				t.Errorf("found %t, (-want +got):\n%s", found, diff)
			}
		})
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}
