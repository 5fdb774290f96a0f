// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring has the tests of the alerts and of Grafana's boards: Prometheus' own promtool evaluates the rules
// on series that are written down, and everything that they ask for must be a metric that our programs export.
package monitoring
