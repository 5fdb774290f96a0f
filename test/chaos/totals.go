// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// totals prints a report, a file of lines that --report has appended, as tables in Markdown.
func totals(path string, out io.Writer) error {
	sum := line{Faults: map[string]int{}, Requests: map[string]int{}, Stops: map[string]int{}}
	seconds, campaigns := time.Duration(0), 0
	fmt.Fprintln(out, "| seed | load | in all | tasks | Pods | revisions | faults | violations |\n|---|---|---|---|---|---|---|---|")
	err := readLines(path, func(one *line) error {
		if one.Command == "" {
			return nil // it is about a mutant: see mutantTable
		}
		took, err := time.ParseDuration(one.Took)
		if err != nil {
			return err
		}
		campaigns++
		seconds += took
		sum.Tasks += one.Tasks
		sum.Pods += one.Pods
		sum.Revisions += one.Revisions
		sum.Violations = append(sum.Violations, one.Violations...)
		add(sum.Faults, one.Faults)
		add(sum.Requests, one.Requests)
		add(sum.Stops, one.Stops)
		fmt.Fprintf(out, "| %d | %s | %s | %d | %d | %d | %d | %d |\n",
			one.Seed, one.Duration, one.Took, one.Tasks, one.Pods, one.Revisions, count(one.Faults), len(one.Violations))
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "| **%d campaigns** | | %.1f h | %d | %d | %d | %d | %d |\n\n",
		campaigns, seconds.Hours(), sum.Tasks, sum.Pods, sum.Revisions, count(sum.Faults), len(sum.Violations))
	fmt.Fprintln(out, "| injected | times |\n|---|---|")
	for _, name := range slices.Sorted(maps.Keys(sum.Faults)) {
		fmt.Fprintf(out, "| %s | %d |\n", name, sum.Faults[name])
	}
	for _, name := range slices.Sorted(maps.Keys(sum.Requests)) {
		fmt.Fprintf(out, "| single requests: %s | %d |\n", name, sum.Requests[name])
	}
	for _, name := range slices.Sorted(maps.Keys(sum.Stops)) {
		fmt.Fprintf(out, "| Pods stopped before their end: %s | %d |\n", name, sum.Stops[name])
	}
	if len(sum.Violations) > 0 {
		fmt.Fprintf(out, "\n- %s\n", strings.Join(sum.Violations, "\n- "))
	}
	return nil
}

// mutantTable prints the mutants of a report as a table in Markdown.
func mutantTable(path string, out io.Writer) error {
	fmt.Fprintln(out, "| mutant | the bug | found after | by the invariant |\n|---|---|---|---|")
	return readLines(path, func(one *found) error {
		if one.Mutant != "" {
			fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", one.Mutant, one.Bug, one.After, one.By)
		}
		return nil
	})
}

// readLines calls a function for each line of a report.
func readLines[T any](path string, take func(*T) error) error {
	file, err := os.Open(path) //nolint:gosec // the user's
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := json.NewDecoder(file)
	for {
		one := new(T)
		if err := lines.Decode(one); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := take(one); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

func add(into, more map[string]int) {
	for name, number := range more {
		into[name] += number
	}
}

func count(numbers map[string]int) int {
	sum := 0
	for _, number := range numbers {
		sum += number
	}
	return sum
}
