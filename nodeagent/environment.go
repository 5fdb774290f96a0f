// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/pflag"

// The environment of the agent's first version and of its device plugin.
const (
	environmentNodeName = "NODE_NAME"
	environmentSchedule = "MONITOR_GPU_INTERVAL_PATTERN"
	environmentResource = "resourcename"
)

// readEnvironment takes from the environment what no flag says.
func (o *options) readEnvironment(flags *pflag.FlagSet, getenv func(string) string) {
	take := func(flag, variable string, into *string) {
		if value := getenv(variable); value != "" && !flags.Changed(flag) {
			*into = value
		}
	}
	take("node-name", environmentNodeName, &o.nodeName)
	take("poll-schedule", environmentSchedule, &o.pollSchedule)
	if name := getenv(environmentResource); name != "" && !flags.Changed("resource") {
		o.resources = []string{name}
	}
}
