// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"falldio.github.io/gpu-controller/test/programs"
)

// required are the programs that must be installed. Debian's packages
// runc and iproute2 have them.
var required = []string{"runc", "ip", "ldd"}

// completePath adds to PATH the folders of system programs, which some systems
// leave out. containerd looks for runc there, too.
func completePath() error {
	return os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
}

// missingHere returns which prerequisites of a real node this machine lacks; "" if
// none.
func missingHere() string {
	var lacks []string
	if os.Geteuid() != 0 {
		lacks = append(lacks, "the rights of root")
	}
	for _, program := range required {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, "the program "+program)
		}
	}
	if len(lacks) == 0 { // otherwise these would only repeat the same
		for what, check := range map[string]func() error{
			"namespaces of its own":     tryNamespaces,
			"control groups of its own": tryCgroups,
			"a usable place":            checkPlace,
		} {
			if err := check(); err != nil {
				lacks = append(lacks, fmt.Sprintf("%s (%v)", what, err))
			}
		}
	}
	if len(lacks) == 0 {
		return ""
	}
	return "it lacks " + strings.Join(lacks, ", ")
}

func tryNamespaces() error {
	command := exec.Command("true")
	command.SysProcAttr = newNamespaces()
	return command.Run()
}

func tryCgroups() error {
	name := fmt.Sprintf("realnode-try-%d", os.Getpid())
	if err := makeCgroups(name); err != nil {
		return err
	}
	return removeCgroups(name)
}

// checkPlace returns an error if the node could not see the programs under test
// because they are in one of the hidden folders.
func checkPlace() error {
	repository, err := filepath.Abs(programs.Root())
	if err != nil {
		return err
	}
	for _, place := range []string{repository, os.TempDir()} {
		for _, hidden := range hiddenFolders {
			if strings.HasPrefix(place+"/", hidden+"/") {
				return fmt.Errorf("%s is in %s, which the node does not see", place, hidden)
			}
		}
	}
	return nil
}
