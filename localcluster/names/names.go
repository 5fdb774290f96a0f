// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package names holds the names of the processes of a local cluster. It is
// apart from package components so that knowing a name does not link all of
// Kubernetes.
package names

// The components that localcluster carries inside its own binary.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubectl           = "kubectl"
	KWOK              = "kwok"
)

// GPUController is the project's own controller, a binary beside localcluster.
const GPUController = "gpu-controller"
