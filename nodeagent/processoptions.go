// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

// The values of --process-metrics: the GPUs of which processes are read.
const (
	processesShared = "shared"
	processesAll    = "all"
	processesOff    = "off"
)

func addProcessMetrics(which *string, flags *pflag.FlagSet) {
	flags.StringVar(which, "process-metrics", *which,
		"of which GPUs to measure what each container uses: shared (by several containers, or given out in shares), all (that containers hold), or off; the agent must see the node's processes (hostPID)")
}

func validateProcessMetrics(which string) error {
	switch which {
	case processesShared, processesAll, processesOff:
		return nil
	default:
		return fmt.Errorf("--process-metrics=%s: must be %s, %s or %s", which, processesShared, processesAll, processesOff)
	}
}
