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
	nodes, trace string
	seed         int64
	seeds        int
	policy       string
	ties         string
	mix          string
	without      string
	log          string
	migrate      float64
	bound        bool
	departures   bool
	load         float64
	jobs         int
	durations    string
	report       string
	data         string
	parts        string
}

// The values of --policy, --ties and --mix.
const (
	ours    = "ours"
	fgd     = "fgd"
	bestFit = "bestfit"
	dotProd = "dotprod"
	random  = "random"

	byName      = "name"
	byPublished = "published"
	byLot       = "random"

	learned = "learned"
	known   = "known"
)

func parse(args []string) (*options, error) {
	o := &options{}
	flags := pflag.NewFlagSet("bench/openb", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&o.nodes, "nodes", "", "CSV file with the nodes")
	flags.StringVar(&o.trace, "trace", "", "CSV file with the Pods")
	flags.Int64Var(&o.seed, "seed", 42, "seed of the order of arrivals")
	flags.IntVar(&o.seeds, "seeds", 1, "how many seeds to replay, from --seed on; the mean is printed as well")
	flags.StringVar(&o.policy, "policy", ours, "who places: "+strings.Join(policies(), ", "))
	flags.StringVar(&o.ties, "ties", "", "which node gets a Pod among equally good ones: the smallest \"name\"; "+
		"the smallest of the names that the published simulator gives the nodes with each seed (\"published\"); "+
		"or one drawn by lot for each Pod (\"random\", not for ours); by default \"name\" for ours, \"published\" for the others")
	flags.StringVar(&o.mix, "mix", "", "what is known of what will be asked for: \"learned\" from the Pods that have arrived, "+
		"or \"known\" from all Pods of the trace; by default \"known\" for fgd, as published, and \"learned\" for ours")
	flags.StringVar(&o.without, "without", "", "set this parameter of ours to 0: "+strings.Join(weights(), ", "))
	flags.StringVar(&o.log, "log", "", "write a JSON line for each Pod that arrives, in that order, to this file: "+
		`{"pod":NAME,"node":NAME or "","gpus":[indices],"percent":P}; with several seeds, one after the other`)
	flags.Float64Var(&o.migrate, "migrate", 0, "when a Pod would be dropped, make room for it by moving others, up to this percent of the placed Pods in all")
	flags.BoolVar(&o.bound, "bound", false, "also print what no placement can exceed, and the distance to it")
	flags.BoolVar(&o.departures, "departures", false, "replay a steady state in which Pods end and wait, instead")
	flags.Float64Var(&o.load, "load", 0.95, "the part of the GPUs that is asked for on average, with --departures")
	flags.IntVar(&o.jobs, "jobs", 40_000, "how many jobs come while it is measured, with --departures; half as many come before")
	flags.StringVar(&o.durations, "durations", "", "CSV file with Pods to take durations from, with --departures of a trace without times")
	flags.StringVar(&o.report, "report", "", "replay everything and write tables and plots to this folder, instead; needs --data")
	flags.StringVar(&o.data, "data", "", "folder with the trace's files, for --report")
	flags.StringVar(&o.parts, "parts", "", "write only these parts of the report, separated by commas: "+strings.Join(partNames(), ", "))
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.fill()
	return o, o.check()
}

func policies() []string { return []string{ours, fgd, bestFit, dotProd, random} }

// fill sets the defaults that depend on the policy.
func (o *options) fill() {
	if o.ties == "" {
		o.ties = byPublished
		if o.policy == ours {
			o.ties = byName
		}
	}
	if o.mix == "" {
		o.mix = learned
		if o.policy == fgd {
			o.mix = known
		}
	}
}

// check checks the flags.
func (o *options) check() error {
	for _, choice := range []struct {
		flag, value string
		values      []string
	}{
		{"policy", o.policy, policies()},
		{"ties", o.ties, []string{byName, byPublished, byLot}},
		{"mix", o.mix, []string{learned, known}},
		{"without", o.without, append(weights(), "")},
	} {
		if !slices.Contains(choice.values, choice.value) {
			return fmt.Errorf("--%s: must be one of %s, is %q", choice.flag, strings.Join(choice.values, ", "), choice.value)
		}
	}
	return o.consistent()
}

// consistent checks flags against each other.
func (o *options) consistent() error {
	if err := o.checkNumbers(); err != nil {
		return err
	}
	switch {
	case o.migrate > 0 && o.log != "":
		return fmt.Errorf("--log: the places of Pods that are moved later can't be checked one by one: must not be set with --migrate")
	case o.policy == ours && o.ties == byLot:
		return fmt.Errorf("--ties: ours decides by name: must not be %s", byLot)
	case o.policy != ours && o.without != "":
		return fmt.Errorf("--without: only ours has parameters")
	case o.report != "" && o.data == "":
		return fmt.Errorf("--data: --report needs the folder with the trace's files")
	case o.report != "":
		return nil
	case o.nodes == "":
		return fmt.Errorf("--nodes: must be set")
	case o.trace == "":
		return fmt.Errorf("--trace: must be set")
	case o.departures && o.log != "":
		return fmt.Errorf("--log: there is no log of --departures")
	}
	return nil
}

// checkNumbers checks the numeric flags.
func (o *options) checkNumbers() error {
	switch {
	case o.seeds < 1:
		return fmt.Errorf("--seeds: must be at least 1, is %d", o.seeds)
	case o.migrate < 0 || o.migrate > 100:
		return fmt.Errorf("--migrate: must be from 0 to 100, is %g", o.migrate)
	case o.load <= 0:
		return fmt.Errorf("--load: must be above 0, is %g", o.load)
	case o.jobs < 2:
		return fmt.Errorf("--jobs: must be at least 2, is %d", o.jobs)
	}
	return nil
}

// entrant returns the entrant that the flags describe.
func (o *options) entrant() entrant {
	return entrant{policy: o.policy, ties: o.ties, mix: o.mix, without: o.without, migrate: o.migrate}
}
