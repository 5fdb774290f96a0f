// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package artifacts embeds the manifests of this folder in the binaries that install
// them.
package artifacts

import "embed"

// Folders inside Files.
const (
	// Base is the kustomization with everything but the processes: CRD,
	// namespace, RBAC and PriorityClasses.
	Base = "base"
	// Examples are GPUTasks to try.
	Examples = "examples"
	// SchedulerConfig is gpu-scheduler's configuration.
	SchedulerConfig = "scheduler/config.yaml"
)

// Files are the manifests as they are in this folder.
//
//go:embed kustomization.yaml authorization base controller crds dradriver examples nodeagent rbac scheduler
var Files embed.FS
