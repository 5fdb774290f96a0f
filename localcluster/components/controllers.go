// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !early

package components

import (
	"k8s.io/component-base/cli"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"falldio.github.io/gpu-controller/localcluster/names"
)

// controllers are the components that act on what the API server holds.
func controllers() map[string]func() int {
	return map[string]func() int{
		names.ControllerManager: func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
		names.Scheduler:         func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	}
}
