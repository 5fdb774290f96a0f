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
		args    []string
		kubelet string
		fails   bool
	}{
		"of a whole release":  {[]string{"kube-apiserver", "kube-controller-manager", "kubelet"}, []string{"--kube-apiserver=DIR/kube-apiserver", "--kube-controller-manager=DIR/kube-controller-manager"}, "DIR/kubelet", false},
		"of an API server":    {[]string{"kube-apiserver"}, []string{"--kube-apiserver=DIR/kube-apiserver"}, "ours", false},
		"of a kubelet only":   {[]string{"kubelet"}, nil, "DIR/kubelet", false},
		"of an empty folder?": {nil, nil, "ours", true},
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
			if got := strings.ReplaceAll(Kubelet("ours"), dir, "DIR"); got != test.kubelet {
				t.Errorf("the kubelet is %q, want %q", got, test.kubelet)
			}
		})
	}
}

func TestClustersRunTheirOwnProgramsByDefault(t *testing.T) {
	t.Setenv(programsVariable, "")
	if args, err := ProgramsFromEnvironment(); args != nil || err != nil {
		t.Errorf("arguments %v, error %v, want none", args, err)
	}
	if got := Kubelet("ours"); got != "ours" {
		t.Errorf("the kubelet is %q, want ours", got)
	}
}

func withoutFolder(args []string, dir string) []string {
	var all []string
	for _, arg := range args {
		all = append(all, strings.ReplaceAll(arg, dir, "DIR"))
	}
	return all
}
