// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutant builds the programs with deliberate bugs, which are patches: a checker that does not
// find them proves nothing. No copy of the tree is needed: the patched files are laid over it while the
// programs are compiled.
package mutant

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/test/programs"
)

// Mutant is a deliberate bug.
type Mutant struct {
	Name string
	// Bug says what is wrong, Breaks which invariant it breaks.
	Bug, Breaks string
	// Programs are those that have the bug.
	Programs []string
	// files are the files that are patched, relative to the repository.
	files []string
	patch string
}

// folder has the patches.
const folder = "test/chaos/mutants"

// All returns the mutants in a repository, sorted by name.
func All(root string) ([]Mutant, error) {
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.patch"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	mutants := make([]Mutant, 0, len(paths))
	for _, path := range paths {
		text, err := os.ReadFile(path) //nolint:gosec // of the repository
		if err != nil {
			return nil, err
		}
		one, err := parse(strings.TrimSuffix(filepath.Base(path), ".patch"), text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if one.patch, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		mutants = append(mutants, one)
	}
	return mutants, nil
}

// parse reads the lines before the first difference, and which files differ.
func parse(name string, text []byte) (Mutant, error) {
	one := Mutant{Name: name}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "Bug":
			one.Bug = value
		case "Breaks":
			one.Breaks = value
		case "Programs":
			one.Programs = strings.Fields(value)
		}
		if file, found := strings.CutPrefix(lines.Text(), "+++ b/"); found {
			one.files = append(one.files, file)
		}
	}
	if one.Bug == "" || one.Breaks == "" || len(one.Programs) == 0 || len(one.files) == 0 {
		return one, errors.New("it must begin with lines Bug:, Programs: and Breaks:, and change at least one file")
	}
	return one, lines.Err()
}

// Apply writes the patched files into a folder, and a file for go's flag -overlay, whose path it
// returns.
func (m *Mutant) Apply(ctx context.Context, root, into string) (overlay string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	replaced := map[string]string{}
	for _, file := range m.files {
		text, err := os.ReadFile(filepath.Join(root, file)) //nolint:gosec // of the repository
		if err != nil {
			return "", err
		}
		copied := filepath.Join(into, file)
		if err := os.MkdirAll(filepath.Dir(copied), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(copied, text, 0o600); err != nil { //nolint:gosec // in a folder of the campaign
			return "", err
		}
		replaced[filepath.Join(root, file)] = copied
	}
	command := exec.CommandContext(ctx, "git", "apply", m.patch)
	command.Dir = into
	// Otherwise git would look for a repository around the folder.
	command.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(into))
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("applying %s: %w\n%s", m.patch, err, output)
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(into, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// campaignPrograms returns the programs that a campaign runs.
func campaignPrograms() []string {
	return []string{"localcluster", "gpu-controller", "gpu-scheduler", "nodeagent"}
}

// Build builds the programs with the bug into a folder, beside the sound ones, which it
// links to.
func (m *Mutant) Build(ctx context.Context, root, sound, into string) error {
	overlay, err := m.Apply(ctx, root, filepath.Join(into, "patched"))
	if err != nil {
		return err
	}
	if overlay, err = filepath.Abs(overlay); err != nil {
		return err
	}
	variant := &programs.Variant{Makefile: filepath.Join(root, "Makefile"), Sources: root, Into: into, Variables: []string{"BUILD_FLAGS=-overlay=" + overlay}}
	if err := programs.BuildFrom(ctx, variant, m.Programs...); err != nil {
		return fmt.Errorf("building %s: %w", m.Name, err)
	}
	return link(sound, into)
}

// link links the other programs into the folder.
func link(from, into string) error {
	from, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	for _, program := range campaignPrograms() {
		err := os.Symlink(filepath.Join(from, program), filepath.Join(into, program))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}
