// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// pack packs the chart, and returns the archive's path.
func pack(t *testing.T, version string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "run", "./hack/chartpackage", "--version="+version, "--output="+t.TempDir())
	command.Dir = root()
	var problems bytes.Buffer
	command.Stderr = &problems
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	return strings.TrimSpace(string(output))
}

func TestTheArchiveInstallsTheImagesOfItsVersion(t *testing.T) {
	t.Parallel()
	archive := pack(t, "v1.2.3-4-gabcdef0")
	if want := "/gpu-controller-1.2.3-4-gabcdef0.tgz"; !strings.HasSuffix(archive, want) {
		t.Errorf("the archive is %s, want …%s", archive, want)
	}
	if output, err := helm(t, "lint", "--strict", archive); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	everything := valuesFile(t, values{"dashboard": values{"enabled": true}, "dradriver": values{"enabled": true}, "kueue": values{"enabled": true}, "priorities": values{"enabled": true}})
	fromArchive, err := helm(t, "template", release, archive, "--namespace="+namespace, "--values="+everything)
	if err != nil {
		t.Fatal(err)
	}
	fromFolder, err := helm(t, "template", release, chartFolder(), "--namespace="+namespace, "--values="+everything)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(fromFolder, `:latest"`, `:v1.2.3-4-gabcdef0"`); fromArchive != want {
		t.Error("the archive installs something else than the folder")
	}
	if strings.Count(fromArchive, `:v1.2.3-4-gabcdef0"`) != 6 {
		t.Errorf("%d containers have an image of this version, want 6", strings.Count(fromArchive, `:v1.2.3-4-gabcdef0"`))
	}
}

func TestTheSameChartGivesTheSameArchive(t *testing.T) {
	t.Parallel()
	var archives [2][]byte
	for i := range archives {
		var err error
		if archives[i], err = os.ReadFile(pack(t, "v1.2.3")); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same chart differ")
	}
}
