// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/hack/release/provenance"
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
	for _, want := range []string{"images/gpu-controller.tar", "sbom/gpu-controller-amd64.spdx.json", "sbom/gpu-controller-arm64.spdx.json", "manifests/install.yaml", "chart/gpu-controller-1.2.3.tgz", "kubectl-gputask-windows-amd64.tar.gz", "localcluster-darwin-arm64.tar.gz", "gputask.yaml", "provenance.json", marker} {
		if !strings.Contains(strings.Join(names, "\n")+"\n", want+"\n") {
			t.Errorf("the release has no %s: %v", want, names)
		}
	}
	if install := read(t, filepath.Join(one, "manifests", "install.yaml")); !strings.Contains(install, "image: registry.example.com/gpu/nodeagent:v1.2.3\n") {
		t.Error("the manifests don't name the images of the release")
	}
	image := regexp.MustCompile(`image: registry.example.com/gpu/gpu-controller:v1.2.3@(sha256:[0-9a-f]{64})\n`).FindStringSubmatch(read(t, filepath.Join(one, "manifests", "install.yaml")))
	if image == nil || !strings.Contains(read(t, filepath.Join(one, "images", "gpu-controller.tar")), image[1]) {
		t.Errorf("the manifests name the image of gpu-controller by %q, which is not its digest", image)
	}
	checkProvenance(t, one, names)
	checkBaseNames(t, names)
}

// TestImagesThatAreImportedHaveNoDigests: a node knows what was imported by its tag only.
func TestImagesThatAreImportedHaveNoDigests(t *testing.T) {
	r := newRelease(t)
	r.registry = localRegistry
	if err := r.replace(t.Context()); err != nil {
		t.Fatal(err)
	}
	install := read(t, filepath.Join(r.out, "manifests", "install.yaml"))
	if !strings.Contains(install, "image: localhost/gpu-controller:v1.2.3\n") || strings.Contains(install, "@sha256:") {
		t.Error("the manifests don't name the images by their tags")
	}
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

// TestAReleaseThatFailsLeavesTheEarlierOne, and does not keep the next one from being made.
func TestAReleaseThatFailsLeavesTheEarlierOne(t *testing.T) {
	r := newRelease(t)
	fail := func(want []string) {
		t.Helper()
		broken := *r
		broken.chart = t.TempDir() // the images have been written by then
		if err := broken.replace(t.Context()); err == nil || !strings.Contains(err.Error(), "chart") {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff(want, filesOf(t, filepath.Dir(r.out))); diff != "" {
			t.Errorf("the files after a failure (-want +got):\n%s", diff)
		}
	}
	fail(nil)
	for _, version := range []string{"v1.2.3", "v1.2.4"} {
		r.version = version
		if err := r.replace(t.Context()); err != nil {
			t.Fatalf("release %s: %v", version, err)
		}
		files := filesOf(t, filepath.Dir(r.out))
		if charts := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return !strings.HasSuffix(name, ".tgz") }); !slices.Equal(charts, []string{"release/chart/gpu-controller-" + version[1:] + ".tgz"}) {
			t.Errorf("release %s has the charts %v", version, charts)
		}
		before := read(t, filepath.Join(r.out, marker))
		fail(files)
		if read(t, filepath.Join(r.out, marker)) != before {
			t.Errorf("release %s is another one after a failure", version)
		}
	}
}

// TestATreeWithChangesIsNoCommit: its provenance names no commit that could be compared with it.
func TestATreeWithChangesIsNoCommit(t *testing.T) {
	t.Parallel()
	for revision, want := range map[string]map[string]string{"0123": {"gitCommit": "0123"}, "0123-dirty": nil} {
		r := &release{source: "https://example.com/x.git", revision: revision}
		if diff := cmp.Diff(provenance.Artifact{URI: "git+https://example.com/x.git@" + revision, Digest: want}, r.tree()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestNoMirrorIsSaidToHaveDelivered: which one did is not known when an archive was kept.
func TestNoMirrorIsSaidToHaveDelivered(t *testing.T) {
	t.Parallel()
	r, err := parse(append(arguments(t), "--out=x"))
	if err != nil {
		t.Fatal(err)
	}
	packages := r.inputs()[1:]
	if want := len(r.lock.Packages) * len(r.architectures); len(packages) != want {
		t.Errorf("%d packages, want %d", len(packages), want)
	}
	for _, input := range packages {
		if !strings.HasPrefix(input.URI, "pkg:deb/debian/") || input.Digest["sha256"] == "" {
			t.Errorf("got %+v", input)
		}
	}
}

func TestAMissingArgumentIsNamed(t *testing.T) {
	err := run(t.Context(), []string{"--out=x", "--programs=y", "--downloads=z", "--revision=r"})
	if err == nil || !strings.Contains(err.Error(), "--version is missing") {
		t.Errorf("got %v", err)
	}
}

// checkBaseNames fails the test if files of several folders have one name: where a release is published, there are
// no folders.
func checkBaseNames(t *testing.T, names []string) {
	t.Helper()
	folders := map[string]string{}
	for _, name := range names {
		folder, base := filepath.Split(name)
		if other, twice := folders[base]; twice {
			t.Errorf("%s is in the folders %q and %q", base, other, folder)
		}
		folders[base] = folder
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
	r := newRelease(t)
	if err := r.replace(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r.out
}

// newRelease returns such a release that is not made yet.
func newRelease(t *testing.T) *release {
	t.Helper()
	r, err := parse(append(arguments(t), "--out="+filepath.Join(t.TempDir(), "release")))
	if err != nil {
		t.Fatal(err)
	}
	r.processes = slices.DeleteFunc(slices.Clone(r.processes), func(p process) bool { return p.glibc })
	for i := range r.processes {
		for _, architecture := range r.architectures {
			compile(t, filepath.Join(r.programs, "linux-"+architecture, r.processes[i].program), architecture)
		}
	}
	writePrograms(t, r)
	return r
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
		"--license=" + filepath.Join("..", "..", "LICENSE"), "--plugin-platforms=linux-arm64 windows-amd64", "--localcluster-platforms=darwin-arm64",
		"--url=https://example.com/releases/v1.2.3/", "--registry=registry.example.com/gpu/", "--version=v1.2.3", "--revision=0123456789abcdef", "--created=1700000000", "--source=https://example.com/x.git",
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
