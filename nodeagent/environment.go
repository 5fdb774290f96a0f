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
	take := func(flag, variable string, into func(string)) {
		if value := getenv(variable); value != "" && !flags.Changed(flag) {
			into(value)
			o.variables[flag] = variable
		}
	}
	take("node-name", environmentNodeName, func(value string) { o.nodeName = value })
	take("poll-schedule", environmentSchedule, func(value string) { o.pollSchedule = value })
	take("resource", environmentResource, func(value string) { o.resources = []string{value} })
}

// settingOf names where a flag's value comes from, for messages: the flag, or the
// environment variable in its place.
func (o *options) settingOf(flag string) string {
	if variable := o.variables[flag]; variable != "" {
		return variable
	}
	return "--" + flag
}
