// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command schedulerperf runs workloads of Kubernetes' own scheduler_perf, which
// use no GPUs, with our build of the scheduler and with the stock one. Run it with
// "make bench-schedulerperf"; docs/benchmarks.md has the results.
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
		fmt.Fprintf(os.Stderr, "bench/schedulerperf: %v\n", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	program, localcluster string
	rounds                int
	only                  []string
	report                string
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := pflag.NewFlagSet("bench/schedulerperf", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&o.program, "program", "bin/schedulerperf.test", "what make build-schedulerperf compiles")
	flags.StringVar(&o.localcluster, "localcluster", "bin/localcluster", "the program; its etcd is used")
	flags.IntVar(&o.rounds, "rounds", 3, "how often each workload runs with each scheduler")
	flags.StringSliceVar(&o.only, "workloads", workloadNames(), "which workloads")
	flags.StringVar(&o.report, "report", "", "write a table to benchmarks.md in this folder")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.rounds < 1:
		return nil, fmt.Errorf("--rounds: must be at least 1, is %d", o.rounds)
	}
	for _, name := range o.only {
		if workloadNamed(name) == nil {
			return nil, fmt.Errorf("--workloads: must be some of %v, is %q", workloadNames(), name)
		}
	}
	return o, nil
}

// run measures round by round, both schedulers in turn, so that they see the same
// machine. Each round begins with the other one.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	found := results{}
	for round := range o.rounds {
		for _, name := range o.only {
			for i := range schedulers {
				scheduler := schedulers[(i+round)%len(schedulers)]
				m, err := measure(ctx, o, workloadNamed(name), scheduler)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", name, scheduler, err)
				}
				found.add(name, scheduler, m)
				fmt.Fprintf(out, "round %d, %s, %s: %.1f Pods/s, %.1f s of CPU time\n", round, name, scheduler, m.throughput, m.cpu)
			}
		}
	}
	table := found.table(o.only)
	fmt.Fprint(out, table)
	if o.report == "" {
		return nil
	}
	if err := writeReport(o, table); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}
