// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"

	"falldio.github.io/gpu-controller/test/schedulerperf"
)

// measurement is the result of one run.
type measurement struct {
	// throughput is Pods scheduled per second.
	throughput float64
	// cpu is the CPU time in seconds of the whole program, from start to end.
	cpu float64
}

// measure runs a workload with a scheduler, on an etcd of its own.
func measure(ctx context.Context, o *options, w *workload, scheduler string) (m measurement, err error) {
	folder, err := schedulerperf.Folder(ctx)
	if err != nil {
		return m, err
	}
	cases, err := schedulerperf.Cases(folder, w.topic)
	if err != nil {
		return m, err
	}
	run := schedulerperf.Run{
		Program: o.program, Localcluster: o.localcluster,
		Scheduler: scheduler, Folder: filepath.Join(folder, w.topic),
	}
	if run.Case, err = w.sized(cases); err != nil {
		return m, err
	}
	if scheduler == schedulerperf.Ours {
		if err := withOurs(&run); err != nil {
			return m, err
		}
	}
	outcome, err := run.Do(ctx)
	if err != nil {
		return m, fmt.Errorf("%w:\n%s", err, lastBytes(outcome.Output, 8000))
	}
	m.throughput, err = parseThroughput(outcome.Results)
	m.cpu = outcome.CPU.Seconds()
	return m, err
}

func lastBytes(text []byte, number int) []byte { return text[max(0, len(text)-number):] }

// withOurs configures our scheduler with its first profile.
func withOurs(run *schedulerperf.Run) error {
	profiles, err := schedulerperf.Profiles()
	if err != nil {
		return err
	}
	return run.WithProfile(profiles[0])
}
