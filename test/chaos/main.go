// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chaos runs campaigns of faults on a local cluster: while users create, delete, suspend and
// scale tasks, it kills and stops processes, breaks their requests, clocks, disks, nodes and GPUs, and
// records everything that happens. Then it checks from that history that nothing has happened that must
// never happen. docs/reliability.md describes it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/campaign"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

// options are the flags.
type options struct {
	seed     uint64
	duration time.Duration
	flood    int
	programs string
	dir      string
	report   string
	check    string
	totals   string
	print    bool
	mutants  bool
	only     string
	build    bool
}

func parse(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Uint64Var(&o.seed, "seed", 1, "what happens, and when")
	flags.DurationVar(&o.duration, "duration", 10*time.Minute, "for how long there is load; faults are injected in the first three quarters")
	flags.IntVar(&o.flood, "flood", -1, "how many fuzzed objects come (default: 15 for each second, at most 10000)")
	flags.StringVar(&o.programs, "bin", "bin", "the folder of the programs under test")
	flags.StringVar(&o.dir, "dir", "", "the folder for history and logs (default: a new one in the system's folder for temporary files)")
	flags.StringVar(&o.report, "report", "", "a file to which the result is appended, as a line of JSON")
	flags.StringVar(&o.check, "check", "", "check the history in this file instead of running a campaign")
	flags.StringVar(&o.totals, "totals", "", "print the campaigns and the mutants of the report in this file as tables")
	flags.BoolVar(&o.print, "print", false, "print what would be done, and do nothing")
	flags.BoolVar(&o.mutants, "mutants", false, "build the programs with each deliberate bug, and run a campaign until it is found")
	flags.StringVar(&o.only, "only", "", "the only mutant to run")
	flags.BoolVar(&o.build, "build-only", false, "build the mutants, and run none")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.mutants {
		o.duration = mutantLoad
	}
	if o.flood < 0 {
		o.flood = min(10000, int(15*o.duration.Seconds()))
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	switch {
	case o.check != "":
		return checkFile(o.check, os.Stdout)
	case o.totals != "":
		return errors.Join(totals(o.totals, os.Stdout), mutantTable(o.totals, os.Stdout))
	case o.print:
		campaign.Schedule(&campaign.Options{Seed: o.seed, Duration: o.duration, Flood: o.flood}, os.Stdout)
		return nil
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "chaos-"); err != nil {
			return err
		}
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	if o.mutants {
		return runMutants(ctx, o)
	}
	return runCampaign(ctx, o)
}

// errViolations is returned when a campaign has found something.
var errViolations = errors.New("the history has violations")

func runCampaign(ctx context.Context, o *options) error {
	fmt.Printf("seed %d, %v; history and logs are in %s\n", o.seed, o.duration, o.dir)
	result, err := campaign.Run(ctx, campaign.Options{
		Seed: o.seed, Duration: o.duration, Programs: o.programs, Dir: o.dir, Flood: o.flood, Command: command(o), Out: os.Stdout,
	})
	if len(result.Entries) == 0 {
		return err // it has not begun
	}
	// What it has found counts even if it could not be carried out to its end.
	show(result, os.Stdout)
	err = errors.Join(err, appendReport(o.report, result))
	if len(result.Violations) > 0 {
		return errors.Join(err, errViolations)
	}
	return err
}

// command replays a campaign.
func command(o *options) string {
	return fmt.Sprintf("go run ./test/chaos --seed=%d --duration=%v --flood=%d", o.seed, o.duration, o.flood)
}
