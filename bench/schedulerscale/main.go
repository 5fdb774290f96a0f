// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command schedulerscale measures gpu-scheduler's planner on a large cluster, in one process
// and without an API server: throughput while gangs wait, the time that events take, and
// memory. Run it with "make bench-scheduler-scale"; docs/benchmarks.md has the results.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/bench/document"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench/schedulerscale: %v\n", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	program string
	part    int
	journal bool
	report  string
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := pflag.NewFlagSet("bench/schedulerscale", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&o.program, "program", "bin/schedulerscale.test", "the tests of scheduler/planner, compiled")
	flags.IntVar(&o.part, "part", 1, "measure one part of the cluster in so many")
	flags.BoolVar(&o.journal, "journal", false, "measure what the journal of decisions costs")
	flags.StringVar(&o.report, "report", "", "write tables to benchmarks.md in this folder")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.part < 1:
		return nil, fmt.Errorf("--part: must be at least 1, is %d", o.part)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	text, name, err := o.measured(ctx)
	if err != nil {
		return err
	}
	fmt.Fprint(out, text)
	if o.report == "" {
		return nil
	}
	part := document.Part{Tool: "bench/schedulerscale", Name: name}
	if err := part.ReplaceIn(filepath.Join(o.report, document.Name), text); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// measured measures, and returns the report and the name of its part of the document.
func (o *options) measured(ctx context.Context) (text, name string, err error) {
	if o.journal {
		measured, err := measure(ctx, o, "TestScaleWithAJournal", "SCHEDULERSCALE_JOURNAL", parseJournalResults)
		if err != nil {
			return "", "", err
		}
		return measured.report(), "journal", nil
	}
	measured, err := measure(ctx, o, "TestScale", "SCHEDULERSCALE_RESULTS", parseResults)
	if err != nil {
		return "", "", err
	}
	return measured.report(), "results", nil
}
