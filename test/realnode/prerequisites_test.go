// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are what must be installed. Debian's packages containerd, runc and
// iproute2 have them.
var programs = []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "ip", "ldd"}

// completePath lets programs be found that some systems keep for administrators.
// containerd looks for runc in the same places.
func completePath() error {
	return os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin:/sbin")
}

// missingHere says what this machine lacks for a real node; "" if nothing.
func missingHere() string {
	var lacks []string
	if os.Geteuid() != 0 {
		lacks = append(lacks, "the rights of root")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, "the program "+program)
		}
	}
	if len(lacks) == 0 { // else these would only say the same once more
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

// checkPlace fails if the node could not see the programs under test, because
// it has folders of its own in their place.
func checkPlace() error {
	repository, err := filepath.Abs(root())
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
