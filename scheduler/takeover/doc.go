// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover makes a gpu-scheduler the successor of the one before it: nothing that a predecessor has begun can
// take effect unnoticed, and nobody has to leave a node before it is known what runs. It also notices others that bind
// Pods meanwhile.
package takeover
