// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	localcluster = "localcluster"
	// raceAgent is the node agent with the race detector.
	raceAgent = "nodeagent-race"
	// raceDriver is the DRA driver with it.
	raceDriver = "dradriver-race"
)

// Programs for containers: the test's own, in its directory, and the agent and the DRA driver as
// shipped.
const (
	appProgram    = "app"
	agentProgram  = "nodeagent"
	driverProgram = "dradriver"
)

// dnsProgram is CoreDNS, in the test's directory.
const dnsProgram = "coredns"

// exampleProgram is Kubernetes' example of a DRA driver, in the test's directory.
const exampleProgram = "dra-example-kubeletplugin"

// containerdPrograms are the programs of containerd that the node needs. They are built here:
// that of a distribution may be too old to inject devices by CDI.
var containerdPrograms = []string{"containerd", "containerd-shim-runc-v2", "ctr"}

// root is the folder of the repository.
func root() string { return filepath.Join("..", "..") }

func binary(name string) string {
	path, err := filepath.Abs(filepath.Join(root(), "bin", name))
	if err != nil {
		return name
	}
	return path
}

// build builds the programs under test, and in dir the program for containers, CoreDNS and the
// example of a DRA driver. It
// is quick if everything is up to date.
func build(dir string) error {
	for _, step := range []struct {
		environment string
		args        []string
	}{
		{"", []string{"make", "build"}},
		{"", []string{"go", "build", "-race", "-o", binary(raceAgent), "./nodeagent"}},
		{"", []string{"go", "build", "-race", "-o", binary(raceDriver), "./dradriver"}},
		{"CGO_ENABLED=0", []string{"go", "build", "-o", filepath.Join(dir, appProgram), "./test/realnode/app"}},
		{"", buildContainerd(dir)},
		{"CGO_ENABLED=0", []string{"go", "build", "-C", filepath.Join("test", "realnode", "coredns"), "-ldflags", "-s -w", "-o", filepath.Join(dir, dnsProgram), "."}},
		{"CGO_ENABLED=0", []string{"go", "build", "-C", filepath.Join("test", "realnode", "exampledriver"), "-ldflags", "-s -w", "-o", filepath.Join(dir, exampleProgram),
			"sigs.k8s.io/dra-example-driver/cmd/" + exampleProgram}},
	} {
		command := exec.Command(step.args[0], step.args[1:]...)
		command.Dir = root()
		command.Env = append(os.Environ(), step.environment)
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", step.args, err, output)
		}
	}
	return nil
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
