// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package krew has the manifest with which krew installs the plugin, and its test.
package krew
