// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClustersRunThePrograms(t *testing.T) {
	tests := map[string]struct {
		programs []string
		// args have the folder instead of DIR.
		args, kubelet []string
		fails         bool
	}{
		"of a whole release":  {[]string{"kube-apiserver", "kube-controller-manager", "kubelet"}, []string{"--kube-apiserver=DIR/kube-apiserver", "--kube-controller-manager=DIR/kube-controller-manager"}, []string{"DIR/kubelet"}, false},
		"of an API server":    {[]string{"kube-apiserver"}, []string{"--kube-apiserver=DIR/kube-apiserver"}, []string{"ours", "component", "kubelet"}, false},
		"of a kubelet only":   {[]string{"kubelet"}, nil, []string{"DIR/kubelet"}, false},
		"of an empty folder?": {nil, nil, []string{"ours", "component", "kubelet"}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, program := range test.programs {
				if err := os.WriteFile(filepath.Join(dir, program), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv(programsVariable, dir)
			args, err := ProgramsFromEnvironment()
			if (err != nil) != test.fails {
				t.Errorf("error %v, want one: %v", err, test.fails)
			}
			if diff := cmp.Diff(test.args, withoutFolder(args, dir)); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.kubelet, withoutFolder(KubeletCommand("ours"), dir)); diff != "" {
				t.Errorf("the kubelet (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClustersRunTheirOwnProgramsByDefault(t *testing.T) {
	t.Setenv(programsVariable, "")
	if args, err := ProgramsFromEnvironment(); args != nil || err != nil {
		t.Errorf("arguments %v, error %v, want none", args, err)
	}
	if diff := cmp.Diff([]string{"ours", "component", "kubelet"}, KubeletCommand("ours")); diff != "" {
		t.Errorf("the kubelet (-want +got):\n%s", diff)
	}
}

func withoutFolder(args []string, dir string) []string {
	var all []string
	for _, arg := range args {
		all = append(all, strings.ReplaceAll(arg, dir, "DIR"))
	}
	return all
}
