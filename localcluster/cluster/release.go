// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"falldio.github.io/gpu-controller/localcluster/names"
)

// release returns the release of the API server.
func (o *Options) release(ctx context.Context) (string, error) {
	if o.APIServer == "" {
		return o.KubernetesVersion, nil
	}
	return releaseOf(ctx, o.APIServer)
}

// releaseOf returns the release of a program of Kubernetes, such as v1.34.12, which it asks the
// program for.
func releaseOf(ctx context.Context, program string) (string, error) {
	output, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", program, err)
	}
	release, named := strings.CutPrefix(strings.TrimSpace(string(output)), "Kubernetes ")
	if _, err := version.ParseSemantic(release); !named || err != nil {
		return "", fmt.Errorf("%s --version says %q instead of a release of Kubernetes", program, output)
	}
	return release, nil
}

// otherRelease returns the program of another release of Kubernetes that is a component; empty for
// a component in Executable.
func (o *Options) otherRelease(component string) string {
	switch component {
	case names.APIServer:
		return o.APIServer
	case names.ControllerManager:
		return o.ControllerManager
	default:
		return ""
	}
}

// emulating adds the version that a component of Kubernetes is to emulate, if any: the chosen one,
// or else that of an older API server. Kubernetes supports no component that is newer than the API
// server: it may wait forever for APIs that do not exist there.
func (c *cluster) emulating(component string, args []string) []string {
	emulated := c.options.EmulatedVersion
	if emulated == "" && c.options.otherRelease(component) == "" {
		emulated = olderMinor(c.release, c.options.KubernetesVersion)
	}
	if emulated == "" {
		return args
	}
	return append(args, "--emulated-version="+emulated)
}

// olderMinor returns the minor version of a release of Kubernetes, such as 1.34, if it is older
// than that of another one.
func olderMinor(release, than string) string {
	older, errOlder := version.ParseSemantic(release)
	newer, errNewer := version.ParseSemantic(than)
	if errOlder != nil || errNewer != nil || older.Major() != newer.Major() || older.Minor() >= newer.Minor() {
		return ""
	}
	return fmt.Sprintf("%d.%d", older.Major(), older.Minor())
}
