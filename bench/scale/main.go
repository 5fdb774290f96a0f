// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command scale measures what each process costs in a large cluster: memory, CPU time and the
// writes that it sends, when nothing happens and while tasks come and go. The cluster is a local
// one whose nodes and Pods are simulated. Run it with "make bench-scale"; docs/benchmarks.md has
// the results.
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
		fmt.Fprintf(os.Stderr, "bench/scale: %v\n", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	bin, report         string
	nodes, pods         int
	rate                int
	settle, rest, churn time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := pflag.NewFlagSet("bench/scale", pflag.ContinueOnError)
	flags.StringVar(&o.bin, "bin", "bin", "folder with the programs")
	flags.StringVar(&o.report, "report", "", "folder with benchmarks.md, which is rewritten; empty to print only")
	flags.IntVar(&o.nodes, "nodes", 5000, "nodes with 8 GPUs each")
	flags.IntVar(&o.pods, "pods", 20_000, "Pods that run all the time, a half of them in gangs of 8")
	flags.IntVar(&o.rate, "rate", 50, "Pods per second that start, and end half a minute later, in the second part")
	flags.DurationVar(&o.settle, "settle", time.Minute, "for how long nothing may be written before the cluster counts as at rest, and how long churn goes on before it is measured")
	flags.DurationVar(&o.rest, "rest", 5*time.Minute, "how long the cluster is measured at rest; each kubelet reports, and moves are planned, every 5 minutes")
	flags.DurationVar(&o.churn, "churn", 2*time.Minute, "how long the cluster is measured while Pods come and go")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for name, value := range map[string]int{"nodes": o.nodes, "pods": o.pods, "rate": o.rate} {
		if value < 1 {
			return nil, fmt.Errorf("--%s=%d: must be at least 1", name, value)
		}
	}
	if room := 8 * o.nodes; o.pods > room/2 {
		return nil, fmt.Errorf("--pods=%d: each has one GPU, and half of the %d GPUs are for the Pods that come and go", o.pods, room)
	}
	return o, nil
}

func run(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-scale-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return err
	}
	requests := filepath.Join(dir, "requests.json")
	c, err := cluster.Start(ctx, filepath.Join(bin, "localcluster"), filepath.Join(dir, "cluster"), os.Stderr, "--start-timeout=20m",
		"--controller="+filepath.Join(bin, "gpu-controller"), "--dashboard="+filepath.Join(bin, "kubectl-gputask"), "--audit-log="+requests,
		// As installed: localcluster itself reschedules every few seconds.
		"--controller-arg=--reschedule-period=5m", "--controller-arg=--reschedule-unhealthy=false",
		fmt.Sprintf("--nodes=name=node,model=%s,count=%d,gpus=8,gpu-memory=81559Mi,nodes-per-leaf=32", gpuModel, o.nodes))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	results, err := measure(ctx, o, c, requests)
	if err != nil {
		return err
	}
	text := tables(o, results)
	fmt.Print(text)
	if o.report == "" {
		return nil
	}
	// Each size has its part, so that sizes can be compared.
	part := document.Part{Tool: "bench/scale", Name: fmt.Sprintf("%d nodes", o.nodes)}
	return part.ReplaceIn(filepath.Join(o.report, document.Name), text)
}
