// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheArchivesHaveTheProgramsOfTheirPlatforms unpacks those that users download.
func TestTheArchivesHaveTheProgramsOfTheirPlatforms(t *testing.T) {
	t.Parallel()
	folder := writeDownloads(t, "https://example.com/releases/v1.2.3")
	license := read(t, filepath.Join("..", "..", "LICENSE"))
	for name, want := range map[string]map[string]string{
		"kubectl-gputask-linux-arm64.tar.gz":   {"kubectl-gputask": "kubectl-gputask for linux-arm64", "LICENSE": license},
		"kubectl-gputask-windows-amd64.tar.gz": {"kubectl-gputask.exe": "kubectl-gputask for windows-amd64", "LICENSE": license},
		"localcluster-darwin-arm64.tar.gz": {
			"localcluster": "localcluster for darwin-arm64", "gpu-controller": "gpu-controller for darwin-arm64", "gpu-scheduler": "gpu-scheduler for darwin-arm64",
			"nodeagent": "nodeagent for darwin-arm64", "kubectl-gputask": "kubectl-gputask for darwin-arm64", "LICENSE": license,
		},
	} {
		if diff := cmp.Diff(want, unpacked(t, filepath.Join(folder, name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestKrewFindsTheArchivesOfTheRelease by the address and the checksum in the manifest.
func TestKrewFindsTheArchivesOfTheRelease(t *testing.T) {
	t.Parallel()
	folder := writeDownloads(t, "https://example.com/releases/v1.2.3")
	manifest := read(t, filepath.Join(folder, "gputask.yaml"))
	for _, platform := range []string{"linux-arm64", "windows-amd64"} {
		name := "kubectl-gputask-" + platform + ".tar.gz"
		digest, err := digestOf(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"sha256: " + digest + "\n", "uri: https://example.com/releases/v1.2.3/" + name + "\n"} {
			if !strings.Contains(manifest, want) {
				t.Errorf("the manifest has no %q:\n%s", want, manifest)
			}
		}
	}
}

func TestWithoutAnAddressThereIsNoManifestForKrew(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(filepath.Join(writeDownloads(t, ""), "gputask.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// writeDownloads writes the downloads of a release into a folder.
func writeDownloads(t *testing.T, url string) string {
	t.Helper()
	r, err := parse(append(arguments(t), "--out="+t.TempDir(), "--url="+url))
	if err != nil {
		t.Fatal(err)
	}
	writePrograms(t, r)
	if err := r.writeDownloads(); err != nil {
		t.Fatal(err)
	}
	return r.out
}

// writePrograms writes stand-ins for the programs that users download.
func writePrograms(t *testing.T, r *release) {
	t.Helper()
	for _, d := range r.downloads {
		for _, platform := range d.platforms {
			folder := filepath.Join(r.programs, d.name+"-"+platform)
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, program := range d.programs {
				if err := os.WriteFile(filepath.Join(folder, program), []byte(program+" for "+platform), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// unpacked returns the files in an archive. The programs in it must be executable.
func unpacked(t *testing.T, archive string) map[string]string {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(plain); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int64{true: 0o644, false: 0o755}[header.Name == "LICENSE"]; header.Mode != want {
			t.Errorf("%s: %s has mode %o", archive, header.Name, header.Mode)
		}
		files[header.Name] = string(content)
	}
}
