// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/campaign"
	"falldio.github.io/gpu-controller/test/chaos/check"
	"falldio.github.io/gpu-controller/test/chaos/mutant"
)

// mutantLimit is how long a campaign with a mutant may take, and mutantLoad for how long there is load:
// after that the cluster has to converge.
const (
	mutantLimit = 5 * time.Minute
	mutantLoad  = 110 * time.Second
)

// errMissed is returned when a mutant was not found.
var errMissed = errors.New("not every mutant was found")

// found is what came of a mutant.
type found struct {
	Mutant string `json:"mutant"`
	Bug    string `json:"bug"`
	Breaks string `json:"breaks"`
	// By is Breaks if that invariant was found to be broken; empty if it was not. Others may have been found
	// before.
	By        string `json:"by"`
	Violation string `json:"violation"`
	// After is when it was found, from the beginning of the load and by the clock that runs slower on a busy
	// machine. Seed is that of the campaign that has found it: if the first one does not, the next follows.
	After string `json:"after"`
	Seed  uint64 `json:"seed"`
}

// runMutants runs a campaign with each mutant until it is found, and prints a table.
func runMutants(ctx context.Context, o *options) error {
	mutants, err := mutant.All(".")
	if err != nil {
		return err
	}
	if o.only != "" {
		mutants = slices.DeleteFunc(mutants, func(one mutant.Mutant) bool { return one.Name != o.only })
	}
	for i := range mutants {
		fmt.Printf("building with %s\n", mutants[i].Name)
		if err := mutants[i].Build(ctx, ".", o.programs, programsOf(o, &mutants[i])); err != nil {
			return err
		}
	}
	if o.build {
		return nil
	}
	var all []found
	for i := range mutants {
		one, err := runMutant(ctx, o, &mutants[i])
		if err != nil {
			return err
		}
		all = append(all, one)
		if err := appendLine(o.report, one); err != nil {
			return err
		}
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	missed := false
	fmt.Fprintln(table, "mutant\tfound after\tby")
	for i := range all {
		missed = missed || all[i].By == ""
		fmt.Fprintf(table, "%s\t%s\t%s\n", all[i].Mutant, all[i].After, all[i].By)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if missed {
		return errMissed
	}
	return nil
}

// programsOf is the folder of the programs with a bug.
func programsOf(o *options, m *mutant.Mutant) string { return filepath.Join(o.dir, m.Name, "bin") }

func runMutant(ctx context.Context, o *options, m *mutant.Mutant) (found, error) {
	one := found{Mutant: m.Name, Bug: m.Bug, Breaks: m.Breaks, Seed: o.seed, After: "not found"}
	fmt.Printf("\n=== %s: %s\n", m.Name, m.Bug)
	limited, cancel := context.WithTimeout(ctx, mutantLimit)
	defer cancel()
	for ; limited.Err() == nil && one.By == ""; one.Seed++ {
		// A directory of its own: processes of the last cluster may still be about to end.
		dir := filepath.Join(o.dir, fmt.Sprintf("%s-%d", m.Name, one.Seed))
		result, err := campaign.Run(limited, campaign.Options{
			Seed: one.Seed, Duration: mutantLoad, Programs: programsOf(o, m), Dir: dir, Flood: o.flood, Until: m.Breaks, Out: os.Stdout,
			Command: fmt.Sprintf("go run ./test/chaos --mutants --only=%s --seed=%d", m.Name, one.Seed),
		})
		if violation := firstOf(result.Violations, m.Breaks); violation != nil {
			one.By, one.Violation = violation.Invariant, violation.String()
			one.After = result.FoundAfter.Round(time.Second).String()
			break
		}
		if err != nil && limited.Err() == nil {
			return one, err
		}
	}
	if ctx.Err() != nil {
		return one, ctx.Err()
	}
	fmt.Printf("=== %s: %s %s\n", m.Name, one.After, one.Violation)
	return one, nil
}

// firstOf returns the first violation of an invariant, nil if there is none.
func firstOf(violations []check.Violation, invariant string) *check.Violation {
	for i := range violations {
		if violations[i].Invariant == invariant {
			return &violations[i]
		}
	}
	return nil
}

// appendLine appends a line of JSON to a file; nothing if it has no name.
func appendLine(path string, value any) error {
	if path == "" {
		return nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // a report is for everybody
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	return errors.Join(err, file.Close())
}
