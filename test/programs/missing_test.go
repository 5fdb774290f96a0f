// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatIsSkippedIsSaid: at the end of "make test" on a machine with only what builds the programs.
func TestWhatIsSkippedIsSaid(t *testing.T) {
	t.Parallel()
	said := missingWith(t, nil, "make", "gcc", "git")
	for _, want := range []string{
		"Skipped on this machine:", "the page in a browser: test/dashboard (apt-get install chromium)",
		"the page's accessibility: test/dashboard (apt-get install npm)",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("said\n%s\nwithout %q", said, want)
		}
	}
	if strings.Contains(said, "test/upgrade") {
		t.Errorf("said\n%s\nalthough git is there", said)
	}
}

func TestPackagesThatAreMissingAreListed(t *testing.T) {
	t.Parallel()
	packages := strings.Fields(missingWith(t, []string{"--packages"}, "gcc"))
	for _, want := range []string{"make", "git", "chromium", "npm"} {
		if !strings.Contains(strings.Join(packages, " "), want) {
			t.Errorf("listed %q without %s", packages, want)
		}
	}
}

// missingWith runs missing.sh on a machine that has only these programs and those of the script itself. What is in
// /usr/sbin, where some machines have runc and ip, is found as well.
func missingWith(t *testing.T, args []string, names ...string) string {
	t.Helper()
	script, err := filepath.Abs(filepath.Join(Root(), "hack", "missing.sh"))
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	for _, name := range append(names, "bash", "id", "sort") {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), filepath.Join(path, "bash"), append([]string{script}, args...)...)
	command.Env = []string{"PATH=" + path}
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}
