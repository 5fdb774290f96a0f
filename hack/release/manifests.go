// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/hack/release/chart"
)

// kustomizations are what a release has as one file each, by the name of the file, and the
// folders in artifacts.
var kustomizations = map[string]string{
	"install.yaml":           ".",
	"crds.yaml":              "crds",
	"controller.yaml":        "controller",
	"scheduler.yaml":         "scheduler",
	"nodeagent.yaml":         "nodeagent",
	"dashboard.yaml":         "dashboard",
	"dradriver.yaml":         "dradriver",
	"dradriver-observe.yaml": "dradriver/observe",
	"kueue.yaml":             "kueue",
	"namespaced.yaml":        "namespaced",
	"numbers.yaml":           "numbers",
	"gpuaccess.yaml":         "gpuaccess",
	"priorities.yaml":        "priorities",
	"scheduler-name.yaml":    "scheduler-name",
	"monitoring.yaml":        "monitoring",
	"grafana.yaml":           "grafana",
	"networkpolicies.yaml":   "networkpolicies",
	"flowcontrol.yaml":       "flowcontrol",
}

// writeManifests writes the manifests with the names of the release's images.
func (r *release) writeManifests() error {
	files, err := inMemory(r.manifests)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(kustomizations)) {
		content, err := r.manifest(files, kustomizations[name])
		if err != nil {
			return fmt.Errorf("manifest %s: %w", name, err)
		}
		if err := r.write(filepath.Join("manifests", name), content); err != nil {
			return err
		}
	}
	return nil
}

// writeChart writes the archive of the Helm chart, which knows the registry, the tag and the digests of the images.
func (r *release) writeChart() error {
	name, content, err := chart.Pack(r.chart, &chart.Release{Version: r.version, Registry: r.registry, Digests: r.digests, Modified: r.created})
	if err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	return r.write(filepath.Join("chart", name), content)
}

// inMemory returns a file system with the folder as /artifacts, in which overlays may be
// written.
func inMemory(folder string) (filesys.FileSystem, error) {
	files := filesys.MakeFsInMemory()
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error { //nolint:gosec // a folder that the user has named
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // below the folder
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		return files.WriteFile(filepath.Join("/artifacts", relative), content)
	})
	return files, err
}

// localRegistry is the registry in the kustomizations, which name images that "make images" has built.
const localRegistry = "localhost"

// manifest renders a kustomization of /artifacts.
func (r *release) manifest(files filesys.FileSystem, folder string) ([]byte, error) {
	type renamed struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
		Digest  string `json:"digest,omitempty"`
	}
	var images []renamed
	for i := range processes {
		images = append(images, renamed{localRegistry + "/" + processes[i].image, r.reference(processes[i].image), r.version, r.digests[processes[i].image]})
	}
	overlay, err := yaml.Marshal(map[string]any{"resources": []string{filepath.Join("../artifacts", folder)}, "images": images})
	if err != nil {
		return nil, err
	}
	if err := files.WriteFile("/overlay/kustomization.yaml", overlay); err != nil {
		return nil, err
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/overlay")
	if err != nil {
		return nil, err
	}
	return resources.AsYaml()
}
