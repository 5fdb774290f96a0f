// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"falldio.github.io/gpu-controller/test/node"
	"falldio.github.io/gpu-controller/test/programs"
)

var (
	// shared is the node of all tests. TestMain sets it before any test runs.
	shared *node.Node
	// missing is which prerequisites of a real node this machine lacks; "" if none.
	missing string
)

// emptyNode is the simulated node that localcluster requires. No Pod is to run there.
const emptyNode = "other-0"

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(node.Run(m, &node.Setup{
		Build: makeRelease,
		ClusterArgs: func(string) ([]string, error) {
			return []string{"--controller=none", "--scheduler=stock", "--dashboard=none", "--nodes=name=other,model=none,count=1,gpus=1,gpu-memory=1Gi"}, nil
		},
		Archives: func(dir string) ([]string, error) {
			return filepath.Glob(filepath.Join(releaseFolder(dir), "images", "*.tar"))
		},
		Ready:   func(n *node.Node) { shared = n },
		Missing: func(reason string) { missing = reason },
	}))
}

func releaseFolder(dir string) string { return filepath.Join(dir, "release") }

// makeRelease makes the release of this tree, as the workflow does, for the platform for which all of it is compiled
// anyway: another one takes 15 CPU minutes for the images, 5 for the plugin and 20 for localcluster.
func makeRelease(dir string) error {
	return programs.Build(programs.Command{Args: []string{
		"make", "release", "RELEASE=" + releaseFolder(dir), "ARCHITECTURES=" + runtime.GOARCH, "URL=https://example.com/releases",
		"PLUGIN_PLATFORMS=" + thisPlatform(), "LOCALCLUSTER_PLATFORMS=" + thisPlatform(),
		"INLINED=", // compiled as what tests run, most of it is compiled already
	}})
}

func thisPlatform() string { return "linux-" + runtime.GOARCH }
