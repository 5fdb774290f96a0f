// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"falldio.github.io/gpu-controller/test/node"
	"falldio.github.io/gpu-controller/test/programs"
)

var (
	// shared is the node of all tests. TestMain sets it before any test runs.
	shared *realNode
	// missing is which prerequisites of a real node this machine lacks; "" if none.
	missing string
)

// realNode is the node with what these tests run on it.
type realNode struct {
	*node.Node
	agent *node.Program
	// driver is the DRA driver; nil outside of the scenes about it.
	driver *node.Program
}

// The images of the agent and of the DRA driver.
const (
	agentImage  = "localhost/nodeagent:1"
	driverImage = "localhost/dradriver:1"
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(node.Run(m, &node.Setup{
		Build: build,
		ClusterArgs: func(dir string) ([]string, error) {
			// localcluster requires at least one node of its own; this one is unused.
			return []string{
				"--nodes=name=other,model=none,count=1,gpus=1,gpu-memory=1Gi", "--any-scheduler", "--apiserver-arg=--authorization-config=" + authorizationConfig(dir),
			}, writeAuthorizationConfig(dir)
		},
		Archives: archives,
		Ready:    func(n *node.Node) { shared = &realNode{Node: n} },
		Missing:  func(reason string) { missing = reason },
	}))
}

// archives writes the images of the agent and of the driver.
func archives(dir string) ([]string, error) {
	var paths []string
	for program, image := range map[string]string{agentProgram: agentImage, driverProgram: driverImage} {
		archive := filepath.Join(dir, program+".tar")
		if err := node.WriteImage(archive, programs.Binary(program), image); err != nil {
			return nil, err
		}
		paths = append(paths, archive)
	}
	return paths, nil
}
