// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with the plugins that serve the names of Kubernetes' Services. It is a
// module of its own: CoreDNS is built with the versions of its libraries that it was tested with,
// and none of them becomes a dependency of gpu-controller.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() { coremain.Run() }
