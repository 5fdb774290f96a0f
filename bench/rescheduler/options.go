// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/pflag"
)

// options are the flags.
type options struct {
	data, trace string
	seed        int64
	seeds       int
	jobs        int
	small       int
	report      string
	kinds       []kind
}

func parse(args []string) (*options, error) {
	o := &options{kinds: usual()}
	flags := pflag.NewFlagSet("bench/rescheduler", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&o.data, "data", "", "folder with the files of the openb trace")
	flags.StringVar(&o.trace, "trace", "default", "name of the trace")
	flags.Int64Var(&o.seed, "seed", 42, "seed of the jobs that come")
	flags.IntVar(&o.seeds, "seeds", 5, "how many seeds to measure, from --seed on")
	flags.IntVar(&o.jobs, "jobs", 20_000, "how many jobs come before the measurement begins")
	flags.IntVar(&o.small, "small", 40, "how many small cases are compared with the best there is, for each seed")
	flags.StringVar(&o.report, "report", "", "write tables and a plot to benchmarks.md in this folder")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.data == "":
		return nil, fmt.Errorf("--data: must be the folder with the trace's files (make bench-rescheduler DATA=…)")
	case o.seeds < 1:
		return nil, fmt.Errorf("--seeds: must be at least 1, is %d", o.seeds)
	case o.jobs < 0 || o.small < 0:
		return nil, fmt.Errorf("--jobs, --small: must not be negative, are %d and %d", o.jobs, o.small)
	}
	return o, nil
}
