// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dashboard measures what the page costs: the CPU time of its server, the bytes that a viewer gets, and how
// smoothly a browser shows it, on a local cluster of many nodes whose Pods change all the time, for one viewer and for
// many. Run it with "make bench-dashboard", which builds the programs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/bench/document"
	"falldio.github.io/gpu-controller/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench/dashboard: %v\n", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	bin, chromium, report string
	nodes, tasks, viewers int
	duration              time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := pflag.NewFlagSet("bench/dashboard", pflag.ContinueOnError)
	flags.StringVar(&o.bin, "bin", "bin", "folder with the programs")
	flags.StringVar(&o.chromium, "chromium", "chromium", "the browser; empty for none")
	flags.StringVar(&o.report, "report", "", "folder with benchmarks.md, which is rewritten; empty to print only")
	flags.IntVar(&o.nodes, "nodes", 1000, "nodes with 8 GPUs each")
	flags.IntVar(&o.tasks, "tasks", 2000, "tasks of one Pod that run at the same time, each for about a minute")
	flags.IntVar(&o.viewers, "viewers", 50, "how many viewers there are in the second case")
	flags.DurationVar(&o.duration, "duration", time.Minute, "how long each case is measured")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for _, bound := range []struct {
		name  string
		value int
	}{{"nodes", o.nodes}, {"tasks", o.tasks}, {"viewers", o.viewers}} {
		if bound.value < 1 {
			return nil, fmt.Errorf("--%s=%d: must be at least 1", bound.name, bound.value)
		}
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-dashboard-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, filepath.Join(bin, "localcluster"), filepath.Join(dir, "cluster"), os.Stderr, "--start-timeout=10m",
		"--controller="+filepath.Join(bin, "gpu-controller"),
		fmt.Sprintf("--nodes=name=node,model=h100-80gb-hbm3,count=%d,gpus=8,gpu-memory=81559Mi,nodes-per-leaf=32", o.nodes))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	work, err := startWork(ctx, c, o.tasks)
	if err != nil {
		return err
	}
	defer work.stop()
	results, err := measureAll(ctx, o, c, bin, work)
	if err != nil {
		return err
	}
	text := tables(o, results)
	fmt.Print(text)
	if o.report == "" {
		return nil
	}
	return document.Part{Tool: "bench/dashboard", Name: "results"}.ReplaceIn(filepath.Join(o.report, document.Name), text)
}
