// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"falldio.github.io/gpu-controller/bench/process"
)

const (
	// quietStep is the interval over which the machine is observed before a measurement,
	// quietLimit the longest wait for a quiet interval.
	quietStep, quietLimit = 5 * time.Second, 30 * time.Second
)

// machineTime returns the CPU time that the whole machine has used, in seconds, including
// time stolen by the hypervisor.
func machineTime() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseMachine(string(text))
}

// parseMachine sums up the time that is not idle in the first line of /proc/stat.
func parseMachine(text string) (float64, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat: unexpected line %q", line)
	}
	ticks := 0
	for i, field := range fields[1:9] { // user nice system idle iowait irq softirq steal
		if i == 3 || i == 4 {
			continue
		}
		number, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: unexpected line %q: %w", line, err)
		}
		ticks += number
	}
	return float64(ticks) / process.TicksPerSecond, nil
}

// awaitQuiet waits until the machine uses fewer than that many cores, at most quietLimit:
// each record has what others used.
func awaitQuiet(ctx context.Context, cores float64) error {
	for deadline := time.Now().Add(quietLimit); time.Now().Before(deadline); {
		before, err := machineTime()
		if err != nil {
			return err
		}
		if err := sleep(ctx, quietStep); err != nil {
			return err
		}
		after, err := machineTime()
		if err != nil {
			return err
		}
		if after-before < cores*quietStep.Seconds() {
			return nil
		}
	}
	return nil
}
