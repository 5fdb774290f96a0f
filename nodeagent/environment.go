// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/pflag"

// The environment variables of the agent's first version and of its device plugin.
const (
	environmentNodeName = "NODE_NAME"
	environmentSchedule = "MONITOR_GPU_INTERVAL_PATTERN"
	environmentResource = "resourcename"
)

// readEnvironment applies environment variables whose flags are not set.
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

// settingName names the source of a flag's value, for messages: the flag, or the environment
// variable that replaces it.
func (o *options) settingName(flag string) string {
	if variable := o.variables[flag]; variable != "" {
		return variable
	}
	return "--" + flag
}
