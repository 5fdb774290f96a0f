// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"falldio.github.io/gpu-controller/kubectl-gputask/whatif"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// readManifests reads the tasks of the files of the flag --filename; "-" is the standard input.
func (s *session) readManifests(files ...string) (*whatif.Manifests, error) {
	var paths []string
	for _, name := range files {
		found, err := filesIn(name)
		if err != nil {
			return nil, fmt.Errorf("--filename: %w", err)
		}
		paths = append(paths, found...)
	}
	all := &whatif.Manifests{}
	for _, path := range paths {
		found, err := s.readFile(path)
		if err != nil {
			return nil, err
		}
		all.Append(found, path)
	}
	return all, all.OrNone(strings.Join(files, ", "))
}

// readTask reads the only task of such a file.
func (s *session) readTask(file string) (*v1.GPUTask, error) {
	manifests, err := s.readManifests(file)
	if err != nil {
		return nil, err
	}
	if tasks := len(manifests.Tasks); tasks != 1 {
		return nil, fmt.Errorf("--filename=%s: must have one GPUTask, but has %d: `kubectl apply -f` creates several", file, tasks)
	}
	for _, skipped := range manifests.Skipped {
		fmt.Fprintf(s.ErrOut, "Not created: %s\n", skipped)
	}
	return manifests.Tasks[0].GPUTask, nil
}

// filesIn returns the manifests in a folder, as kubectl does; a file is itself.
func filesIn(name string) (paths []string, err error) {
	if strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://") {
		return nil, fmt.Errorf("%s: addresses are not read: pipe `curl -L %s` into -f -", name, name)
	}
	if folder, _ := os.Stat(name); name == "-" || folder == nil || !folder.IsDir() {
		return []string{name}, nil // opening it says what is wrong
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(entry.Name())) {
			paths = append(paths, filepath.Join(name, entry.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: there are no files .json, .yaml or .yml in it", name)
	}
	return paths, nil
}

func (s *session) readFile(path string) (*whatif.Manifests, error) {
	if path == "-" {
		return whatif.Parse(s.In, path)
	}
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("--filename: %w", err)
	}
	defer func() { _ = file.Close() }()
	return whatif.Parse(file, path)
}

// overlaid returns a task with what another one sets instead, as "kubectl patch" does: containers, variables, volumes
// and mounts are merged by their names.
func overlaid(base, over *v1.GPUTask) (*v1.GPUTask, error) {
	original, err := json.Marshal(base)
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(over)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, v1.GPUTask{})
	if err != nil {
		return nil, err
	}
	task := &v1.GPUTask{}
	return task, json.Unmarshal(merged, task)
}
