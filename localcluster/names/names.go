// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package names holds the names of the processes of a local cluster. It is
// separate from package components so that using a name does not link all of
// Kubernetes.
package names

// The components that are built into localcluster.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
	KWOK              = "kwok"
)

// The project's own processes, binaries beside localcluster.
const (
	GPUController = "gpu-controller"
	GPUScheduler  = "gpu-scheduler"
	NodeAgent     = "nodeagent"
	// Dashboard is the page in a browser, which the program of the command line serves.
	Dashboard      = "dashboard"
	KubectlGPUTask = "kubectl-gputask"
)
