// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	dir, err := os.MkdirTemp("", "bench-schedulerperf-")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	config, err := writeConfig(o, w, scheduler, dir)
	if err != nil {
		return m, err
	}
	if err := provideEtcd(o.localcluster, dir); err != nil {
		return m, err
	}
	program, err := filepath.Abs(o.program)
	if err != nil {
		return m, err
	}
	command := exec.CommandContext(ctx, program, "-test.run=^$", "-test.bench=.", "-test.benchtime=1ns", "-data-items-dir="+dir, "-v=0") //nolint:gosec // the user names it
	command.Dir = dir
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SCHEDULERPERF_SCHEDULER="+scheduler, "SCHEDULERPERF_CONFIG="+config)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		return m, fmt.Errorf("%w:\n%s", err, lastBytes(output.Bytes(), 8000))
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_benchmark_*.json"))
	if err != nil || len(files) != 1 {
		return m, fmt.Errorf("there are %d files of results: %w\n%s", len(files), err, lastBytes(output.Bytes(), 8000))
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return m, err
	}
	m.throughput, err = parseThroughput(text)
	m.cpu = (command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Seconds()
	return m, err
}

func lastBytes(text []byte, number int) []byte { return text[max(0, len(text)-number):] }

// writeConfig writes the configuration of scheduler_perf and returns its path.
func writeConfig(o *options, w *workload, scheduler, dir string) (string, error) {
	config := ""
	if scheduler == ours {
		text, err := schedulerConfig()
		if err != nil {
			return "", err
		}
		config = filepath.Join(dir, "scheduler.yaml")
		if err := os.WriteFile(config, text, 0o600); err != nil {
			return "", err
		}
	}
	folder := filepath.Join(o.kubernetes, "test", "integration", "scheduler_perf", "misc")
	upstream, err := os.ReadFile(filepath.Join(folder, "performance-config.yaml")) //nolint:gosec // the user names the folder
	if err != nil {
		return "", fmt.Errorf("--kubernetes: %w", err)
	}
	text, err := w.testCase(upstream, folder, config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "workload.yaml")
	return path, os.WriteFile(path, text, 0o600) //nolint:gosec // a folder of ours
}
