// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command pipeline measures how fast gangs of Pods start on a local cluster
// with 1,000 simulated nodes: with raw clients that make the least writes, with the
// stock kube-scheduler and bare Pods, and with GPUTasks. Run it with
// "make bench-pipeline"; docs/benchmarks.md has the method and the results.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench/pipeline: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	b := &bench{options: o, out: out}
	if o.results != "" {
		if b.records, err = readRecords(o.results); err != nil {
			return fmt.Errorf("--results: %w", err)
		}
	}
	if err := b.run(ctx); err != nil {
		return err
	}
	if o.report == "" {
		return nil
	}
	if err := writeReport(o.report, b.counted(), o); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}
