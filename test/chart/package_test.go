// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/hack/release/chart"
)

func TestTheArchiveInstallsTheImagesOfItsRelease(t *testing.T) {
	t.Parallel()
	made := &chart.Release{Version: "v1.2.3-4-gabcdef0", Registry: "registry.example.com/gpu", Modified: time.Unix(1_700_000_000, 0)}
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
	on := values{"enabled": true}
	everything := values{"dashboard": on, "dradriver": on, "kueue": on, "priorities": on}
	fromArchive, err := helm(t, "template", release, archive, "--namespace="+namespace, "--values="+valuesFile(t, everything))
	if err != nil {
		t.Fatal(err)
	}
	everything["image"] = values{"registry": made.Registry, "tag": made.Version}
	fromFolder, err := helm(t, "template", release, chartFolder(), "--namespace="+namespace, "--values="+valuesFile(t, everything))
	if err != nil {
		t.Fatal(err)
	}
	if fromArchive != fromFolder {
		t.Error("the archive installs something else than the folder")
	}
	const containers = 6
	if got := strings.Count(fromArchive, `image: "registry.example.com/gpu/`); got != containers {
		t.Errorf("%d containers have an image of this release, want %d", got, containers)
	}
}
