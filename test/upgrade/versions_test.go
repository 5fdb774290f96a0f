// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"falldio.github.io/gpu-controller/test/programs"
)

const (
	// fromVariable is the environment variable that names the commit to upgrade from, if it is
	// not the previous one.
	fromVariable = "UPGRADE_FROM"
	// requiredVariable makes the test fail where it would otherwise be skipped.
	requiredVariable = "UPGRADE_REQUIRED"
)

// errNoHistory is why there is nothing to upgrade from.
var errNoHistory = errors.New("this clone lacks the commit before HEAD: `git fetch --unshallow` gets it, and " + fromVariable + " names another one")

// version is one version of the project.
type version struct {
	name string
	// tree is the folder of its sources and manifests, bin that of its programs.
	tree, bin string
}

func (v *version) program(name string) string { return filepath.Join(v.bin, name) }

// manifests returns a path inside the folder artifacts.
func (v *version) manifests(path ...string) string {
	return filepath.Join(append([]string{v.tree, "artifacts"}, path...)...)
}

// thisVersion builds the programs of the checkout; it is quick if they are up to date.
func thisVersion() (*version, error) {
	root, err := filepath.Abs(programs.Root())
	if err != nil {
		return nil, err
	}
	if err := programs.Build(programs.Ours()); err != nil {
		return nil, err
	}
	v := &version{name: "new", tree: root, bin: filepath.Join(root, "bin")}
	// "go test" notes which files a test asks for: its cached result doesn't count for other programs.
	for _, role := range roles {
		if _, err := os.Stat(v.program(role)); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// previousVersion builds the programs of the version to upgrade from in a folder. The error is
// errNoHistory if the clone lacks it.
func previousVersion(ctx context.Context, root, dir string) (*version, error) {
	revision, err := previousRevision(ctx, root)
	if err != nil {
		return nil, err
	}
	v := &version{name: "old", tree: filepath.Join(dir, "tree"), bin: filepath.Join(dir, "bin")}
	for _, folder := range []string{v.tree, v.bin} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	archive := filepath.Join(dir, "tree.tar")
	if err := run(ctx, root, nil, "git", "archive", "--output="+archive, revision); err != nil {
		return nil, err
	}
	if err := run(ctx, v.tree, nil, "tar", "--extract", "--file="+archive); err != nil {
		return nil, err
	}
	return v, v.build(ctx, revision)
}

// previousRevision returns the commit to upgrade from: the last release, or else the previous
// commit.
func previousRevision(ctx context.Context, root string) (string, error) {
	commit := func(name string) (string, error) {
		return output(ctx, root, "git", "rev-parse", "--verify", "--quiet", name+"^{commit}")
	}
	if from := os.Getenv(fromVariable); from != "" {
		revision, err := commit(from)
		if err != nil {
			return "", fmt.Errorf("%s=%s: is no commit of this clone: %w", fromVariable, from, err)
		}
		return revision, nil
	}
	name := "HEAD~1"
	if tag, err := output(ctx, root, "git", "describe", "--tags", "--abbrev=0", name); err == nil {
		name = tag
	}
	revision, err := commit(name)
	if err != nil {
		return "", errNoHistory
	}
	return revision, nil
}

// build builds the programs as those of this version are, so that what both have in common is compiled
// once.
func (v *version) build(ctx context.Context, revision string) error {
	kubernetes, err := output(ctx, v.tree, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	return programs.BuildFrom(ctx, &programs.Variant{
		Makefile: filepath.Join(programs.Root(), "Makefile"), Sources: v.tree, Into: v.bin,
		Variables: []string{"VERSION=" + revision, "KUBERNETES_VERSION=" + kubernetes},
	}, roles...)
}

// run runs a command in a folder, with additional environment variables. Its output is part of
// the error.
func run(ctx context.Context, dir string, environment []string, args ...string) error {
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Dir, command.Env = dir, append(os.Environ(), environment...)
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}

// output returns what a command prints, without the line break at the end.
func output(ctx context.Context, dir string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Dir = dir
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(text)), nil
}
