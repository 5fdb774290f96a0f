// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheSameInputGivesTheSameRelease makes a release twice, in different folders: of programs
// that need no library, because Debian's packages need a network.
func TestTheSameInputGivesTheSameRelease(t *testing.T) {
	one, other := makeRelease(t), makeRelease(t)
	names := filesOf(t, one)
	if diff := cmp.Diff(names, filesOf(t, other)); diff != "" {
		t.Fatalf("the files (-first +second):\n%s", diff)
	}
	for _, name := range names {
		a, b := read(t, filepath.Join(one, name)), read(t, filepath.Join(other, name))
		if a != b {
			t.Errorf("%s differs", name)
		}
	}
	for _, want := range []string{"images/gpu-controller.tar", "sbom/gpu-controller-amd64.spdx.json", "sbom/gpu-controller-arm64.spdx.json", "manifests/install.yaml", "chart/gpu-controller-1.2.3.tgz", "provenance.json", marker} {
		if !strings.Contains(strings.Join(names, "\n")+"\n", want+"\n") {
			t.Errorf("the release has no %s: %v", want, names)
		}
	}
	if install := read(t, filepath.Join(one, "manifests", "install.yaml")); !strings.Contains(install, "image: registry.example.com/gpu/nodeagent:v1.2.3") {
		t.Error("the manifests don't name the images of the release")
	}
	checkProvenance(t, one, names)
}

// TestAFolderThatIsNoReleaseIsLeftAlone: RELEASE=. must not delete the work of anybody.
func TestAFolderThatIsNoReleaseIsLeftAlone(t *testing.T) {
	folder := t.TempDir()
	work := filepath.Join(folder, "work")
	if err := os.WriteFile(work, []byte("of years"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), append(arguments(t), "--out="+folder))
	if err == nil || !strings.Contains(err.Error(), "is no release") {
		t.Errorf("got %v", err)
	}
	if read(t, work) != "of years" {
		t.Error("it is gone")
	}
}

func TestAMissingArgumentIsNamed(t *testing.T) {
	err := run(t.Context(), []string{"--out=x", "--programs=y", "--downloads=z", "--revision=r"})
	if err == nil || !strings.Contains(err.Error(), "--version is missing") {
		t.Errorf("got %v", err)
	}
}

// checkProvenance fails the test unless the statement is about all files but the checksums and
// itself.
func checkProvenance(t *testing.T, folder string, names []string) {
	t.Helper()
	var statement struct {
		Subject []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(folder, "provenance.json"))), &statement); err != nil {
		t.Fatal(err)
	}
	if got, want := len(statement.Subject), len(names)-2; got != want {
		t.Errorf("the provenance is about %d files, want %d", got, want)
	}
}

// makeRelease makes a release of programs that need no library, because Debian's packages need
// a network, and returns its folder.
func makeRelease(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "release")
	r, err := parse(append(arguments(t), "--out="+folder))
	if err != nil {
		t.Fatal(err)
	}
	r.processes = slices.DeleteFunc(slices.Clone(r.processes), func(p process) bool { return p.glibc })
	for i := range r.processes {
		for _, architecture := range r.architectures {
			compile(t, filepath.Join(r.programs, "linux-"+architecture, r.processes[i].program), architecture)
		}
	}
	if err := r.writeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	return folder
}

// compile compiles a small program.
func compile(t *testing.T, path, architecture string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", path, "./testdata/program.go")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func arguments(t *testing.T) []string {
	t.Helper()
	return []string{
		"--programs=" + t.TempDir(), "--downloads=" + t.TempDir(), "--manifests=" + filepath.Join("..", "..", "artifacts"), "--chart=" + filepath.Join("..", "..", "charts", "gpu-controller"),
		"--registry=registry.example.com/gpu/", "--version=v1.2.3", "--revision=0123456789abcdef", "--created=1700000000", "--source=https://example.com/x.git",
	}
}

func filesOf(t *testing.T, folder string) []string {
	t.Helper()
	r := &release{out: folder}
	files, err := r.artifacts()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, file.Name)
	}
	return names
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
