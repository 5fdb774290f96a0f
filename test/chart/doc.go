// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart has the tests of the Helm chart, with the real Helm, which they build: that the chart
// installs what the kustomizations install, that every value does something, that wrong values are
// refused, and that neither an upgrade nor an uninstallation loses anything of a real API server.
package chart
