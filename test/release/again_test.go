// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"os"
	"path/filepath"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestASecondReleaseIsTheSame makes the release again in another folder: all files have the same checksums, those of
// the images with Debian's libraries among them. The programs are compiled once: their build is compared by hand
// (docs/installation.md).
func TestASecondReleaseIsTheSame(t *testing.T) {
	if missing != "" {
		t.Skipf("no release was made: a real node cannot run here: %s", missing)
	}
	again := t.TempDir()
	if err := makeRelease(again); err != nil {
		t.Fatal(err)
	}
	checksums := func(dir string) string {
		text, err := os.ReadFile(filepath.Join(releaseFolder(dir), "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if diff := gocmp.Diff(checksums(shared.Dir), checksums(again)); diff != "" {
		t.Errorf("the checksums (-first +second):\n%s", diff)
	}
}
