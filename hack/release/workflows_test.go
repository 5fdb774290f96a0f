// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// workflow has what the tests look at. "make verify-workflows" checks the rest.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Steps       []struct {
			Uses string         `json:"uses"`
			Run  string         `json:"run"`
			With map[string]any `json:"with"`
		} `json:"steps"`
	} `json:"jobs"`
}

// tree is the root of the repository.
const tree = "../.."

// workflows returns the workflows and their texts by their names.
func workflows(t *testing.T) (parsed map[string]workflow, texts map[string]string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(tree, ".github", "workflows", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %v, %v", paths, err)
	}
	parsed, texts = map[string]workflow{}, map[string]string{}
	for _, path := range paths {
		var w workflow
		text := read(t, path)
		if err := yaml.Unmarshal([]byte(text), &w); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		parsed[name], texts[name] = w, text
	}
	return parsed, texts
}

// TestWorkflowsRunWhatDevelopersRun: their steps are targets of make and .ci/run, and what prepares the machine.
func TestWorkflowsRunWhatDevelopersRun(t *testing.T) {
	t.Parallel()
	parsed, _ := workflows(t)
	var targets []string
	for name, w := range parsed {
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				if strings.Contains(step.Run, "${{") || strings.Contains(step.Run, "\n") {
					t.Errorf("%s: what runs is one line, and takes values from the environment: %s", name, step.Run)
				}
				if target, is := strings.CutPrefix(step.Run, "make "); is {
					targets = append(targets, target)
				}
			}
		}
	}
	if len(targets) < 6 {
		t.Errorf("found the targets %v only", targets)
	}
	for _, target := range targets {
		command := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run", "--directory=" + tree}, strings.Fields(target)...)...)
		command.Env = append(os.Environ(), "VERSION=v1.2.3", "REGISTRY=registry.example.com/gpu", "URL=https://example.com", "MAKEFLAGS=")
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("make %s: %v: %s", target, err, output)
		}
	}
}

// TestWorkflowsMayDoNoMoreThanTheyMust: what compiles the code of others writes nothing.
func TestWorkflowsMayDoNoMoreThanTheyMust(t *testing.T) {
	t.Parallel()
	parsed, _ := workflows(t)
	got := map[string]map[string]string{}
	for name, w := range parsed {
		if w.Permissions == nil || len(w.Permissions) > 0 {
			t.Errorf("%s: jobs that name no permissions have %v, want none", name, w.Permissions)
		}
		for job := range w.Jobs {
			got[name+"/"+job] = w.Jobs[job].Permissions
		}
	}
	reads := map[string]string{"contents": "read"}
	want := map[string]map[string]string{
		"ci/linux": reads, "ci/arm64": reads, "ci/macos": reads, "release/build": reads,
		"release/publish": {"contents": "write", "packages": "write", "id-token": "write", "attestations": "write"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the permissions of jobs (-want +got):\n%s", diff)
	}
}

// TestActionsAreNamedByTheirCommits, which nobody can move, and keep no credentials where steps could read them.
func TestActionsAreNamedByTheirCommits(t *testing.T) {
	t.Parallel()
	parsed, texts := workflows(t)
	pinned := regexp.MustCompile(`^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for name, text := range texts {
		for _, match := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(text, -1) {
			if !pinned.MatchString(match[1]) {
				t.Errorf("%s uses %q, want a commit and the version in a comment", name, match[1])
			}
		}
		for _, job := range parsed[name].Jobs {
			for _, step := range job.Steps {
				if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
					t.Errorf("%s: a checkout leaves its credentials in .git/config", name)
				}
			}
		}
	}
}

// TestTheWorkflowPublishesWhatTheReleaseHas: the folders and files that its steps hand over are those of the targets.
func TestTheWorkflowPublishesWhatTheReleaseHas(t *testing.T) {
	t.Parallel()
	parsed, _ := workflows(t)
	var paths []any
	for _, job := range []string{"build", "publish"} {
		for _, step := range parsed["release"].Jobs[job].Steps {
			for _, key := range []string{"path", "subject-checksums"} {
				if path := step.With[key]; path != nil {
					paths = append(paths, path)
				}
			}
		}
	}
	want := []any{"release", "release", "release/" + marker, "bin/pushed"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("the paths (-want +got):\n%s", diff)
	}
	makefile := read(t, filepath.Join(tree, "Makefile"))
	for _, line := range []string{"\nRELEASE ?= release\n", "\nBIN := bin\n", " >$(BIN)/pushed\n"} {
		if !strings.Contains(makefile, line) {
			t.Errorf("the Makefile has no %q", line)
		}
	}
}
