// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/test/cluster"
)

// TestWhatUsersDownloadRunsFromItsArchive: the plugin says its version, and localcluster starts a cluster with the
// programs beside it, and nothing else.
func TestWhatUsersDownloadRunsFromItsArchive(t *testing.T) {
	t.Parallel()
	if missing != "" {
		t.Skipf("no release was made: a real node cannot run here: %s", missing)
	}
	folder := t.TempDir()
	for _, name := range []string{"kubectl-gputask", "localcluster"} {
		run(t, "tar", "--extract", "--gzip", "--file", filepath.Join(releaseFolder(shared.Dir), name+"-"+thisPlatform()+".tar.gz"), "--directory", folder)
	}
	if output := run(t, filepath.Join(folder, "kubectl-gputask"), "version", "--client"); !strings.HasPrefix(output, "Client Version:") {
		t.Errorf("the plugin's version is %q", output)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "localcluster.log"))
	if err != nil {
		t.Fatal(err)
	}
	started, err := cluster.Start(t.Context(), filepath.Join(folder, "localcluster"), filepath.Join(t.TempDir(), "cluster"), log,
		"--nodes=model=h100-80gb-hbm3,count=1,gpus=8")
	if err != nil {
		output, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, output)
	}
	if err := started.Stop(); err != nil {
		t.Error(err)
	}
}

// run runs a program and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, output)
	}
	return string(output)
}
