// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// firstWithCDI are the first versions of container runtimes that inject CDI devices unless
// they are configured not to. containerd 1.7 can, but does so only with enable_cdi = true.
var firstWithCDI = map[string]*version.Version{
	"containerd": version.MustParseGeneric("2.0.0"),
	"cri-o":      version.MustParseGeneric("1.28.0"),
}

// InjectedBy reports whether a container runtime can be expected to inject CDI devices. Its
// name is that of the Node's status.nodeInfo.containerRuntimeVersion, such as
// "containerd://2.1.4".
func InjectedBy(runtime string) bool {
	name, text, _ := strings.Cut(runtime, "://")
	first := firstWithCDI[name]
	if first == nil {
		return false
	}
	its, err := version.ParseGeneric(text)
	return err == nil && its.AtLeast(first)
}
