// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gpu-scheduler is kube-scheduler with plugins for GPUs: whole gangs onto
// exact GPUs. Its flags are kube-scheduler's, its configuration a
// KubeSchedulerConfiguration: see docs/scheduling-configuration.md.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
)

func main() { os.Exit(cli.Run(newCommand())) }
