// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

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

// containerdConfig needs, in this order: no folder outside of the hidden ones;
// no network plugin, for all Pods have the node's network; no AppArmor profile,
// which would be the whole machine's; and the modesty not to ask for a lower
// chance of being killed than its own, which takes a capability that root has
// not everywhere.
const containerdConfig = `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[debug]
  level = "warn"

[grpc]
  address = "` + containerdSocket + `"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  disable_apparmor = true
  restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "%s"

[plugins."io.containerd.grpc.v1.cri".cni]
  conf_dir = "%s"
`

// networkConfig is there so that containerd calls its network ready.
const networkConfig = `{"cniVersion": "0.4.0", "name": "lo", "plugins": [{"type": "loopback"}]}`

func newContainerd(dir string) (*program, error) {
	network := filepath.Join(dir, "cni")
	if err := os.MkdirAll(network, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(network, "lo.conflist"), []byte(networkConfig), 0o600); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "containerd.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, containerdConfig, snapshotter(), network), 0o600); err != nil {
		return nil, err
	}
	return newProgram(dir, "containerd", "containerd", "--config", config), nil
}

// snapshotter returns how containerd shall keep the containers' file systems.
func snapshotter() string {
	known, err := os.ReadFile("/proc/filesystems")
	if err == nil && strings.Contains(string(known), "\toverlay\n") {
		return "overlayfs"
	}
	return "native" // slower, but everywhere
}

// importImage gives containerd an image from an archive.
func importImage(archive string) error {
	return ctr("--namespace", "k8s.io", "images", "import", archive)
}

// containerdReady returns an error while containerd cannot be used.
func containerdReady() error {
	return ctr("version")
}

func ctr(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), containerdLimit)
	defer cancel()
	// A relative path of the socket would make it hang.
	command := exec.CommandContext(ctx, "ctr", append([]string{"--address", containerdSocket}, args...)...)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %v: %w: %s", args, err, output)
	}
	return nil
}
