// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controller measures gpu-controller with 50,000 tasks on 10,000 nodes: memory, the time that it takes to
// take over, and the CPU time and the requests that it needs when nothing changes, when tasks come and go, and when a
// quota refuses all Pods.
// The API server is one in memory that speaks the same formats: a real one would take most of the
// machine, and many minutes to fill. Run it with "make bench-controller"; docs/benchmarks.md has
// the results.
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
	"time"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/bench/document"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench/controller: %v\n", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	program, baseline      string
	tasks, nodes, refused  int
	rate                   int
	period, window, settle time.Duration
	report                 string
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := pflag.NewFlagSet("bench/controller", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&o.program, "program", "bin/gpu-controller", "the program")
	flags.StringVar(&o.baseline, "baseline", "", "another version of it, to compare with")
	flags.IntVar(&o.tasks, "tasks", 50_000, "how many tasks run")
	flags.IntVar(&o.nodes, "nodes", 10_000, "on how many nodes")
	flags.IntVar(&o.rate, "rate", 50, "how many more tasks come per second, run for a while, and are deleted")
	flags.IntVar(&o.refused, "refused", 5_000, "how many tasks a quota refuses")
	flags.DurationVar(&o.period, "period", 20*time.Second, "--reschedule-period of the program")
	flags.DurationVar(&o.window, "window", 2*time.Minute, "how long requests are counted")
	flags.DurationVar(&o.settle, "settle", 2*time.Minute, "how long after the first refusals")
	flags.StringVar(&o.report, "report", "", "write tables to benchmarks.md in this folder")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.tasks < 1, o.nodes < 1, o.rate < 1, o.refused < 1:
		return nil, errors.New("--tasks, --nodes, --rate, --refused: must be at least 1")
	case o.window <= 0:
		return nil, fmt.Errorf("--window: must be greater than 0, is %v", o.window)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	results, err := measure(ctx, o)
	if err != nil {
		return err
	}
	text := report(o, results)
	fmt.Fprint(out, text)
	if o.report == "" {
		return nil
	}
	part := document.Part{Tool: "bench/controller", Name: "results"}
	if err := part.ReplaceIn(filepath.Join(o.report, document.Name), text); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}

// measure measures the program, and the baseline if there is one.
func measure(ctx context.Context, o *options) ([]*result, error) {
	dir, err := os.MkdirTemp("", "bench-controller-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	server := newAPIServer()
	defer server.Close()
	defer server.CloseClientConnections()
	if err := server.fill(o.tasks, o.nodes); err != nil {
		return nil, err
	}
	results := []*result{{name: "this version", environment: []string{memoryLimit}}}
	paths := []string{o.program}
	if o.baseline != "" {
		results, paths = append(results, &result{name: "baseline"}), append(paths, o.baseline)
	}
	for i, path := range paths {
		if err := measureSteady(ctx, o, server, path, dir, results[i]); err != nil {
			return nil, err
		}
		if err := measureStorm(ctx, o, path, dir, results[i]); err != nil {
			return nil, err
		}
	}
	return results, nil
}
