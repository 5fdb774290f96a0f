// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// localcluster is the program with the control plane, the kubelet and kubectl.
const localcluster = "localcluster"

// appProgram is the program in the containers of tests.
const appProgram = "app"

// containerdPrograms are the programs of containerd that the node needs. They are built here:
// that of a distribution may be too old to inject devices by CDI.
var containerdPrograms = []string{"containerd", "containerd-shim-runc-v2", "ctr"}

// Root is the root of the repository, from the folder of a test package below test.
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

// Build runs commands one after the other.
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

// build builds our programs, and in dir the program for containers and containerd.
func build(dir string) error {
	return Build(
		Command{Args: []string{"make", "build"}},
		Command{"CGO_ENABLED=0", []string{"go", "build", "-o", filepath.Join(dir, appProgram), "./test/realnode/app"}},
		Command{"CGO_ENABLED=0", buildContainerd(dir)},
	)
}

// buildContainerd returns the command that builds containerd, without what needs headers of
// the machine.
func buildContainerd(dir string) []string {
	command := []string{"go", "build", "-C", filepath.Join("test", "realnode", "containerd"), "-ldflags", "-s -w",
		"-tags", "no_btrfs no_devmapper no_zfs", "-o", dir + string(filepath.Separator)}
	for _, program := range containerdPrograms {
		command = append(command, "github.com/containerd/containerd/v2/cmd/"+program)
	}
	return command
}
