// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// localFolder is the folder beside those of the artifacts with what is different in a local cluster.
const localFolder = "local"

// The kustomizations of localFolder: which schedulers may place Pods that ask for GPUs, and that any may.
const (
	namedSchedulers = `resources: [../%s]
patches:
  - target: {kind: ValidatingAdmissionPolicy, name: gpu-schedulers}
    patch: |-
      - {op: replace, path: /spec/variables/0/expression, value: "['%s']"}
`
	anyScheduler = `resources: [../%s]
patches:
  - target: {kind: ValidatingAdmissionPolicyBinding, name: gpu-schedulers}
    patch: |-
      {$patch: delete, apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: gpu-schedulers}}
`
)

// writeKustomization writes the kustomization to install, and returns its folder: that of the artifacts, but with the
// names that the schedulers of a local cluster have.
func (c *cluster) writeKustomization() (string, error) {
	names, err := schedulerNames(c.options.SchedulerConfig)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf(namedSchedulers, c.options.ArtifactsPath, strings.Join(names, "', '"))
	if c.options.AnyScheduler {
		text = fmt.Sprintf(anyScheduler, c.options.ArtifactsPath)
	}
	folder := filepath.Join(c.layout.artifacts(), localFolder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", err
	}
	return folder, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600)
}

// schedulerNames returns the names of the schedulers of a local cluster, as its configuration says: Pods that name none
// are placed in any case, by gpu-scheduler or kube-scheduler.
func schedulerNames(config []byte) ([]string, error) {
	var fields struct {
		Profiles []struct {
			SchedulerName string `json:"schedulerName"`
		} `json:"profiles"`
	}
	if err := yaml.Unmarshal(config, &fields); err != nil {
		return nil, fmt.Errorf("the scheduler's configuration: %w", err)
	}
	names := []string{defaultScheduler}
	for _, profile := range fields.Profiles {
		if name := profile.SchedulerName; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}
