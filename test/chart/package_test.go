// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/hack/release/chart"
)

func TestTheArchiveInstallsTheImagesOfItsRelease(t *testing.T) {
	t.Parallel()
	digests := map[string]string{"gpu-controller": "sha256:" + strings.Repeat("1", 64), "nodeagent": "sha256:" + strings.Repeat("2", 64)}
	made := &chart.Release{
		Version: "v1.2.3-4-gabcdef0", Registry: "registry.example.com/gpu", Modified: time.Unix(1_700_000_000, 0), Digests: digests,
	}
	name, content, err := chart.Pack(chartFolder(), made)
	if err != nil {
		t.Fatal(err)
	}
	if want := "gpu-controller-1.2.3-4-gabcdef0.tgz"; name != want {
		t.Errorf("the archive is %s, want %s", name, want)
	}
	_, again, err := chart.Pack(chartFolder(), made)
	if err != nil || !bytes.Equal(content, again) {
		t.Errorf("two archives of the same release differ, error %v", err)
	}
	archive := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(archive, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := helm(t, "lint", "--strict", archive); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	everything := everything()
	fromArchive, err := helm(t, "template", release, archive, "--namespace="+namespace, "--values="+valuesFile(t, everything))
	if err != nil {
		t.Fatal(err)
	}
	if want := `image: "registry.example.com/gpu/nodeagent:v1.2.3-4-gabcdef0@` + digests["nodeagent"] + `"`; !strings.Contains(fromArchive, want) {
		t.Errorf("it does not have %s", want)
	}
	everything["image"] = values{"registry": made.Registry, "tag": made.Version}
	tagged, err := helm(t, "template", release, archive, "--namespace="+namespace, "--values="+valuesFile(t, everything))
	if err != nil {
		t.Fatal(err)
	}
	fromFolder, err := helm(t, "template", release, chartFolder(), "--namespace="+namespace, "--values="+valuesFile(t, everything))
	if err != nil {
		t.Fatal(err)
	}
	// What the archive is called is in labels.
	if withoutChart(tagged) != withoutChart(fromFolder) {
		t.Error("with the same images, the archive installs something else than the folder")
	}
	const containers = 6
	if got := strings.Count(fromArchive, `image: "registry.example.com/gpu/`); got != containers {
		t.Errorf("%d containers have an image of this release, want %d", got, containers)
	}
}

// withoutChart leaves out the labels with the versions of the chart and the release.
func withoutChart(text string) string {
	return regexp.MustCompile(`(?m)^ *(helm.sh/chart|app.kubernetes.io/version): .*\n`).ReplaceAllString(text, "")
}
