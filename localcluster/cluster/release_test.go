// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/localcluster/names"
)

func TestWhichVersionComponentsEmulate(t *testing.T) {
	t.Parallel()
	const ours, older, newer = "v1.37.1", "v1.34.12", "v1.38.0"
	tests := map[string]struct {
		component string
		release   string
		options   Options
		want      string
	}{
		"none if all are of one release":                        {names.APIServer, ours, Options{}, ""},
		"the one that is chosen":                                {names.APIServer, ours, Options{EmulatedVersion: "1.35"}, "1.35"},
		"the scheduler that of an older API server":             {names.Scheduler, older, Options{APIServer: "/old"}, "1.34"},
		"a controller manager of ours that of an older server":  {names.ControllerManager, older, Options{APIServer: "/old"}, "1.34"},
		"an older API server does not emulate itself":           {names.APIServer, older, Options{APIServer: "/old"}, ""},
		"an older controller manager neither":                   {names.ControllerManager, older, Options{APIServer: "/old", ControllerManager: "/old-too"}, ""},
		"another release emulates what is chosen":               {names.APIServer, older, Options{APIServer: "/old", EmulatedVersion: "1.33"}, "1.33"},
		"the scheduler nothing beside a newer API server":       {names.Scheduler, newer, Options{APIServer: "/new"}, ""},
		"the scheduler nothing beside another patch of its own": {names.Scheduler, "v1.37.0", Options{APIServer: "/old"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.options.KubernetesVersion = ours
			c := &cluster{options: test.options, release: test.release}
			want := []string{"--a"}
			if test.want != "" {
				want = append(want, "--emulated-version="+test.want)
			}
			if diff := cmp.Diff(want, c.emulating(test.component, []string{"--a"})); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAComponentOfAnotherReleaseRunsInsteadOfOurs(t *testing.T) {
	t.Parallel()
	c := &cluster{options: Options{Executable: "/ours", APIServer: "/old"}, layout: testLayout}
	for component, want := range map[string][]string{
		names.APIServer:         {"/old", "--a"},
		names.ControllerManager: {"/ours", "component", names.ControllerManager, "--a"},
	} {
		spec := c.componentSpec(component, []string{"--a"})
		if diff := cmp.Diff(want, append([]string{spec.Path}, spec.Args...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", component, diff)
		}
	}
}

// script returns the path of a program that prints a text whatever its arguments are.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	// A program that another test starts meanwhile would inherit the open file, which can't be run until that has
	// begun.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheReleaseOfTheAPIServer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ program, want, wantError string }{
		"our own":             {want: "v1.37.1"},
		"that of another":     {program: `[ "$1" = --version ] && echo Kubernetes v1.34.12`, want: "v1.34.12"},
		"of a provider":       {program: "echo Kubernetes v1.34.1-eks-113cf36", want: "v1.34.1-eks-113cf36"},
		"another program":     {program: "echo kubectl v1.34.12", wantError: "kubectl v1.34.12"},
		"no version":          {program: "echo Kubernetes latest", wantError: "Kubernetes latest"},
		"a program that ends": {program: "exit 3", wantError: "exit status 3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := Options{KubernetesVersion: "v1.37.1"}
			if test.program != "" {
				options.APIServer = script(t, test.program)
			}
			got, err := options.release(t.Context())
			if got != test.want || (err == nil) != (test.wantError == "") {
				t.Errorf("got %q and error %v, want %q and an error with %q", got, err, test.want, test.wantError)
			}
			if err != nil && !strings.Contains(err.Error(), test.wantError) {
				t.Errorf("error %q does not contain %q", err, test.wantError)
			}
		})
	}
}

func TestUpNamesTheFlagOfAComponentThatItCannotRun(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for flag, options := range map[string]Options{
		"--kube-apiserver":          {APIServer: missing},
		"--kube-controller-manager": {ControllerManager: missing},
	} {
		options.Dir = filepath.Join(t.TempDir(), "cluster")
		if err := Up(t.Context(), options); err == nil || !strings.Contains(err.Error(), flag) || !strings.Contains(err.Error(), missing) {
			t.Errorf("got %v, want an error that names %s and the path", err, flag)
		}
	}
}
