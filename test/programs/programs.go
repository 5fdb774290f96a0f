// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package programs builds and names the programs that tests run, and collects what they print. How they are built, only
// the Makefile says. Except for BuildFrom, it is for the packages directly below test, whose working directory tells
// where the repository is.
package programs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Root is the root of the repository.
func Root() string { return filepath.Join("..", "..") }

// Binary returns the path of one of the programs in bin.
func Binary(name string) string {
	path, err := filepath.Abs(filepath.Join(Root(), "bin", name))
	if err != nil {
		return name
	}
	return path
}

// Command is a command that builds something in the root of the repository.
type Command struct {
	// Environment is one more variable, as NAME=VALUE; none if it is empty.
	Environment string
	Args        []string
}

// Ours returns the command that builds our programs into bin.
func Ours() Command { return Command{Args: []string{"make", "build"}} }

// Variant is our programs built from other sources, or otherwise, than those in bin.
type Variant struct {
	// Makefile is the path of the repository's, and Sources the folder of the sources.
	Makefile, Sources string
	// Into is the folder for the programs.
	Into string
	// Variables are those of the Makefile that are other ones, as NAME=VALUE.
	Variables []string
}

// BuildFrom builds programs of a variant as "make build" builds all of ours.
func BuildFrom(ctx context.Context, v *Variant, names ...string) error {
	args, err := v.arguments(names)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, args[0], args[1:]...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", args, err, output)
	}
	return nil
}

// arguments returns the command that builds programs. Its paths are absolute: make changes into the
// folder of the sources.
func (v *Variant) arguments(names []string) ([]string, error) {
	makefile, err := filepath.Abs(v.Makefile)
	if err != nil {
		return nil, err
	}
	into, err := filepath.Abs(v.Into)
	if err != nil {
		return nil, err
	}
	args := append([]string{"make", "--file=" + makefile, "--directory=" + v.Sources, "BIN=" + into}, v.Variables...)
	for _, name := range names {
		args = append(args, "build-"+name)
	}
	return args, nil
}

// WithRace builds a program of the repository with the race detector, which needs cgo, into bin.
func WithRace(name, folder string) Command {
	return Command{Environment: "CGO_ENABLED=1", Args: []string{"go", "build", "-race", "-o", Binary(name), folder}}
}

// Build runs commands one after the other. They are quick if everything is up to date.
func Build(commands ...Command) error {
	for _, step := range commands {
		command := exec.Command(step.Args[0], step.Args[1:]...)
		command.Dir = Root()
		command.Env = append(os.Environ(), step.Environment)
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", step.Args, err, output)
		}
	}
	return nil
}
