// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gpu-scheduler is kube-scheduler with plugins for GPUs: whole gangs onto
// exact GPUs. Its flags are kube-scheduler's, its configuration a
// KubeSchedulerConfiguration: see docs/scheduling.md.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"falldio.github.io/gpu-controller/scheduler/devices"
	"falldio.github.io/gpu-controller/scheduler/gang"
	"falldio.github.io/gpu-controller/scheduler/network"
	"falldio.github.io/gpu-controller/scheduler/packing"
	"falldio.github.io/gpu-controller/scheduler/planner"
)

func main() { os.Exit(run()) }

func run() int {
	shared := &planner.Shared{}
	return cli.Run(app.NewSchedulerCommand(
		app.WithPlugin(gang.Name, gang.Factory(shared)),
		app.WithPlugin(devices.Name, devices.Factory(shared)),
		app.WithPlugin(packing.Name, packing.New),
		app.WithPlugin(network.Name, network.NewFactory()),
	))
}
