// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAVariantIsBuiltAsAllProgramsAre compares what make would run.
func TestAVariantIsBuiltAsAllProgramsAre(t *testing.T) {
	t.Parallel()
	into := t.TempDir()
	all := wouldRun(t, "make", "--directory="+Root(), "BIN="+into, "VERSION=v1", "build")
	for _, name := range []string{"gpu-controller", "gpu-scheduler", "nodeagent", "dradriver", "kubectl-gputask", "localcluster"} {
		got := wouldRun(t, variantInto(t, into, "VERSION=v1", name)...)
		i := slices.IndexFunc(all, func(line string) bool { return strings.Contains(line, "compile.sh "+name+" ") })
		if i < 0 {
			t.Fatalf("%s is not built", name)
		}
		if diff := cmp.Diff(all[i:i+1], got); diff != "" {
			t.Errorf("%s (-all +alone):\n%s", name, diff)
		}
	}
}

func TestAVariantMayHaveMoreFlags(t *testing.T) {
	t.Parallel()
	got := wouldRun(t, variantInto(t, t.TempDir(), "BUILD_FLAGS=-overlay=/x/overlay.json", "nodeagent")...)
	if len(got) != 1 || !strings.Contains(got[0], " -overlay=/x/overlay.json -o ") {
		t.Errorf("got %q", got)
	}
}

// TestAnUnknownProgramIsRefused: "go build" would build the root package instead.
func TestAnUnknownProgramIsRefused(t *testing.T) {
	t.Parallel()
	args := variantInto(t, t.TempDir(), "VERSION=v1", "no-program")
	output, err := exec.CommandContext(t.Context(), args[0], append(args[1:], "--dry-run")...).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "there is no program no-program") {
		t.Errorf("got %v: %s", err, output)
	}
}

// variantInto returns the command that builds a program of this tree.
func variantInto(t *testing.T, into, variable, name string) []string {
	t.Helper()
	makefile := filepath.Join(Root(), "Makefile")
	// "go test" notes that: its cached result doesn't count for another Makefile.
	if _, err := os.Stat(makefile); err != nil {
		t.Fatal(err)
	}
	v := &Variant{Makefile: makefile, Sources: Root(), Into: into, Variables: []string{variable}}
	args, err := v.arguments([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// wouldRun returns the commands of a recipe.
func wouldRun(t *testing.T, args ...string) []string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), args[0], append(args[1:], "--dry-run", "--no-print-directory")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, output)
	}
	return strings.Split(strings.TrimSpace(string(output)), "\n")
}
