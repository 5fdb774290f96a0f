// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// options are the flags.
type options struct {
	trace     string
	nodes     int
	policy    string
	estimates string
	seed      uint64
	seeds     int
	reserved  int
	forecasts int
	replayed  bool
	keep      bool
	log       string
	report    string
	sizes     []int
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := pflag.NewFlagSet("bench/queue", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&o.trace, "trace", "", "CSV file with the jobs: timestamp, duration, num_gpus, cluster")
	flags.IntVar(&o.nodes, "nodes", 80, "how many nodes of 8 GPUs there are")
	flags.StringVar(&o.policy, "policy", ours, "how jobs are served: "+strings.Join(names(), ", ")+"; several separated by commas")
	flags.StringVar(&o.estimates, "estimates", mixed, "what is known of durations: "+strings.Join(estimates(), ", "))
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the submission times and of what users declare")
	flags.IntVar(&o.seeds, "seeds", 1, "how many seeds to replay, from --seed on")
	flags.IntVar(&o.reserved, "reserved", 8, "how many waiting jobs have reservations in time")
	flags.BoolVar(&o.keep, "keep", false, "a job keeps its reservation although others have come before it since")
	flags.IntVar(&o.forecasts, "forecasts", 0, "estimate the start of one of so many waiting jobs; 0 for none")
	flags.BoolVar(&o.replayed, "replayed", true, "expect jobs to come as they came the day before, for --forecasts")
	flags.StringVar(&o.log, "log", "", "write a JSON line for each job that starts to this file: policy, seed, line in the trace, times, nodes and GPUs")
	flags.StringVar(&o.report, "report", "", "replay everything and write tables and plots to this folder, instead; needs 4 seeds for the goals")
	flags.IntSliceVar(&o.sizes, "sizes", clusterSizes, "numbers of nodes in the report")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.trace == "":
		return nil, fmt.Errorf("--trace: must be set")
	case !slices.Contains(estimates(), o.estimates):
		return nil, fmt.Errorf("--estimates: must be one of %s, is %q", strings.Join(estimates(), ", "), o.estimates)
	case o.nodes < 1:
		return nil, fmt.Errorf("--nodes: must be at least 1, is %d", o.nodes)
	case o.seeds < 1:
		return nil, fmt.Errorf("--seeds: must be at least 1, is %d", o.seeds)
	}
	return o, nil
}
