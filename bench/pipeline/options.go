// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// options are the flags.
type options struct {
	localcluster, controller string
	controllerArgs           []string
	nodes                    int
	kinds                    []kind
	systems                  []*system
	scale                    float64
	rounds, latencyRounds    int
	amount                   string
	warm                     int
	quiet, others            float64
	results                  string
	report                   string
	profiles                 string
	profileAfter             time.Duration
	profileFor               time.Duration
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := pflag.NewFlagSet("bench/pipeline", pflag.ContinueOnError)
	flags.SortFlags = false
	var kindNames, systemNames []string
	var all []string
	for _, k := range kinds {
		all = append(all, k.String())
	}
	flags.StringVar(&o.localcluster, "localcluster", "bin/localcluster", "the program")
	flags.StringVar(&o.controller, "controller", "bin/gpu-controller", "the program")
	flags.StringArrayVar(&o.controllerArgs, "controller-arg", nil, "one more argument for gpu-controller; may be repeated")
	flags.IntVar(&o.nodes, "nodes", 1000, "number of nodes, with 8 GPUs each")
	flags.StringSliceVar(&kindNames, "kinds", all, "which gangs: number×size")
	flags.StringSliceVar(&systemNames, "systems", []string{floor, bare, ours}, "what is compared: floor, bare, tasks (GPUTasks with the stock scheduler), ours")
	flags.Float64Var(&o.scale, "scale", 1, "run this part of the gangs")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each is measured with all gangs at once")
	flags.IntVar(&o.latencyRounds, "latency-rounds", 1, "how often each is measured with gangs that arrive at half the floor's rate; needs rounds of the floor")
	flags.StringVar(&o.amount, "gpu-amount", "0.5", "the GPUs of each Pod")
	flags.IntVar(&o.warm, "warm", 20, "the number of Pods that each cluster starts before it is measured")
	flags.Float64Var(&o.quiet, "quiet", 0.3, "before each measurement, wait (at most half a minute) until the machine uses less than so many cores; 0 to go on at once")
	flags.Float64Var(&o.others, "others", 0.5, "do not count measurements during which others used more than so many cores; with --results the same command makes them again")
	flags.StringVar(&o.results, "results", "", "append each measurement to this file, and do not repeat those that it has")
	flags.StringVar(&o.report, "report", "", "write tables and a plot to benchmarks.md in this folder")
	flags.StringVar(&o.profiles, "profiles", "", "write CPU profiles of the processes that serve them, as kube-apiserver and gpu-scheduler do, into this folder; it slows what is measured")
	flags.DurationVar(&o.profileAfter, "profile-after", 2*time.Second, "when the profile begins, after the first request")
	flags.DurationVar(&o.profileFor, "profile-for", 10*time.Second, "how long the profile lasts")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for _, name := range kindNames {
		k, err := named(name)
		if err != nil {
			return nil, fmt.Errorf("--kinds: %w", err)
		}
		o.kinds = append(o.kinds, k)
	}
	for _, name := range systemNames {
		s, err := systemNamed(strings.TrimSpace(name))
		if err != nil {
			return nil, fmt.Errorf("--systems: %w", err)
		}
		o.systems = append(o.systems, s)
	}
	return o, o.check()
}

func (o *options) check() error {
	switch {
	case o.scale <= 0 || o.scale > 1:
		return fmt.Errorf("--scale: must be above 0 and at most 1, is %g", o.scale)
	case o.rounds < 0 || o.latencyRounds < 0:
		return fmt.Errorf("--rounds, --latency-rounds: must not be negative, are %d and %d", o.rounds, o.latencyRounds)
	case o.nodes < 1:
		return fmt.Errorf("--nodes: must be at least 1, is %d", o.nodes)
	case o.warm < 1:
		return fmt.Errorf("--warm: must be at least 1, is %d", o.warm)
	}
	return nil
}
