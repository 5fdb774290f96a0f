// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	containerdLimit  = time.Minute
)

// containerdConfig keeps containerd within the hidden folders; uses no AppArmor
// profile, which would be loaded for the whole machine; does not lower the OOM score
// below its own, which takes a capability that root does not have everywhere; and
// finds the network plugins where Debian has them.
const containerdConfig = `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[debug]
  level = "warn"

[grpc]
  address = "` + containerdSocket + `"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "%s"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "` + PauseImage + `"

[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
  conf_dir = "%s"
  bin_dirs = ["` + networkPlugins + `"]
`

// networkPlugins is where the package containernetworking-plugins has its programs.
const networkPlugins = "/usr/lib/cni"

// networkConfig is that of the Pod network: a bridge. Its plugins are needed only by Pods that
// don't use the node's network.
const networkConfig = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true, "ipam": {
    "type": "host-local", "ranges": [[{"subnet": "10.99.1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]
  }}
]}`

func newContainerd(dir string) (*Program, error) {
	network := filepath.Join(dir, "cni")
	if err := os.MkdirAll(network, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(network, "pods.conflist"), []byte(networkConfig), 0o600); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "containerd.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, containerdConfig, snapshotter(), network), 0o600); err != nil {
		return nil, err
	}
	return NewProgram(dir, "containerd", "containerd", "--config", config), nil
}

// snapshotter returns which snapshotter containerd uses for the containers' file
// systems.
func snapshotter() string {
	known, err := os.ReadFile("/proc/filesystems")
	if err == nil && strings.Contains(string(known), "\toverlay\n") {
		return "overlayfs"
	}
	return "native" // slower, but works everywhere
}

// importImage imports an image from an archive into containerd. It is pinned: a kubelet whose disk is full would
// delete it otherwise, and could not pull it again.
func importImage(archive string) error {
	return Ctr("--namespace", "k8s.io", "images", "import", "--label", "io.cri-containerd.pinned=pinned", archive)
}

// containerdReady returns an error while containerd cannot be used.
func containerdReady() error {
	return Ctr("version")
}

// Ctr runs containerd's client ctr.
func Ctr(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), containerdLimit)
	defer cancel()
	// With a relative path of the socket it would hang.
	command := exec.CommandContext(ctx, "ctr", append([]string{"--address", containerdSocket}, args...)...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %v: %w: %s", args, err, output)
	}
	return nil
}
