// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package programs builds and names the programs that tests run. It is for the packages
// directly below test, whose working directory tells where the repository is.
package programs

import (
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
