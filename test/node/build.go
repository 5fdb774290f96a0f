// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"path/filepath"

	"falldio.github.io/gpu-controller/test/programs"
)

// localcluster is the program with the control plane, the kubelet and kubectl.
const localcluster = "localcluster"

// appProgram is the program in the containers of tests.
const appProgram = "app"

// containerdPrograms are the programs of containerd that the node needs. They are built here:
// that of a distribution may be too old to inject devices by CDI.
var containerdPrograms = []string{"containerd", "containerd-shim-runc-v2", "ctr"}

// build builds our programs, and in dir the program for containers and containerd.
func build(dir string) error {
	return programs.Build(
		programs.Ours(),
		programs.Command{Args: []string{"make", "build-kubelet"}},
		programs.Command{Environment: "CGO_ENABLED=0", Args: []string{"go", "build", "-o", filepath.Join(dir, appProgram), "./test/realnode/app"}},
		programs.Command{Environment: "CGO_ENABLED=0", Args: buildContainerd(dir)},
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
