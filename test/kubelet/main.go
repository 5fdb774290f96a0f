// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubelet is Kubernetes' kubelet, of the release that localcluster has: the nodes of a local cluster are
// simulated, and test/node adds a real one.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
}
