// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command nodeagent measures what the node agent costs: a poll of eight
// simulated GPUs, finding the containers of the processes on a shared one, and labelling
// a Node of a local cluster, each beside the way that it replaces. Run it with "make
// bench-nodeagent", which builds localcluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/bench/measure"
	"falldio.github.io/gpu-controller/test/cluster"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench/nodeagent: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := pflag.NewFlagSet("bench/nodeagent", pflag.ContinueOnError)
	localcluster := flags.String("localcluster", "bin/localcluster", "the program")
	rounds := flags.Int("rounds", 500, "how often each is measured")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rounds < 1 {
		return fmt.Errorf("--rounds: must be at least 1, is %d", *rounds)
	}
	dir, err := os.MkdirTemp("", "bench-nodeagent-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := cluster.Start(ctx, *localcluster, filepath.Join(dir, "cluster"), os.Stderr, "--nodeagent=none",
		"--nodes=name=bench,model=h100-80gb-hbm3,count=1,gpus=8,gpu-memory=81559Mi")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	config, err := c.Config()
	if err != nil {
		return err
	}
	labelling, err := labelling(ctx, config, "bench-0", *rounds)
	if err != nil {
		return err
	}
	return report(polling(ctx, *rounds), attributing(ctx, *rounds), labelling)
}

func report(contests ...measure.Contest) error {
	var results []*measure.Result
	for _, contest := range contests {
		result, err := contest.Run()
		if err != nil {
			return err
		}
		results = append(results, result)
	}
	return measure.Print(os.Stdout, results...)
}
