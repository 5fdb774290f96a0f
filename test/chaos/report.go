// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/campaign"
	"falldio.github.io/gpu-controller/test/chaos/check"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// show prints what came of a campaign.
func show(result *campaign.Result, out io.Writer) {
	fmt.Fprintf(out, "\n%d revisions, %d entries, %d tasks, %d Pods in %v\n",
		result.Revisions, len(result.Entries), result.Tasks, result.Pods, result.Took.Round(time.Second))
	showCounts(out, "faults", result.Faults)
	showCounts(out, "requests disturbed", result.Requests)
	showCounts(out, "users", result.Steps)
	showCounts(out, "Pods stopped before their end", result.Stops)
	for _, text := range result.NotInjected {
		fmt.Fprintln(out, "not injected:", text)
	}
	showViolations(campaign.Config(result.Header.MovesPerHour), result.Header, result.Entries, result.Violations, out)
	fmt.Fprintln(out, "history:", result.HistoryPath)
}

func showCounts(out io.Writer, what string, counts map[string]int) {
	fmt.Fprintf(out, "%s:\n", what)
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "%6d %s\n", counts[name], name)
	}
}

// mostLines bounds what is printed of a window, mostWindows of how many violations there is one: finding it
// takes up to a minute.
const (
	mostLines   = 120
	mostWindows = 5
)

func showViolations(config check.Config, header history.Header, entries []history.Entry, violations []check.Violation, out io.Writer) {
	if len(violations) == 0 {
		fmt.Fprintln(out, "no violations")
		return
	}
	fmt.Fprintf(out, "%d VIOLATIONS, with seed %d; replay with:\n  %s\n", len(violations), header.Seed, header.Command)
	for i := range violations {
		violation := &violations[i]
		if i >= mostWindows {
			fmt.Fprintf(out, "\n%s\n", violation)
			continue
		}
		window := check.Shrink(config, entries, violation)
		fmt.Fprintf(out, "\n%s\n  window: entries %d to %d, revisions %d to %d; what concerns it:\n",
			violation, window.From, window.To-1, window.First, window.Last)
		lines := window.Entries
		if left := len(lines) - mostLines; left > 0 {
			fmt.Fprintf(out, "  (%d earlier lines are left out)\n", left)
			lines = lines[left:]
		}
		for j := range lines {
			fmt.Fprintf(out, "  %s\n", &lines[j])
		}
	}
}

// checkFile checks a history that was kept.
func checkFile(path string, out io.Writer) error {
	file, err := os.Open(path) //nolint:gosec // the user's
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	header, entries, err := history.Read(file)
	if err != nil {
		return err
	}
	config := campaign.Config(header.MovesPerHour)
	violations := check.All(config, entries)
	fmt.Fprintf(out, "%d entries\n", len(entries))
	showViolations(config, header, entries, violations, out)
	if len(violations) > 0 {
		return errViolations
	}
	return nil
}

// line is a campaign in a report.
type line struct {
	Seed       uint64         `json:"seed"`
	Duration   string         `json:"duration"`
	Took       string         `json:"took"`
	Ended      time.Time      `json:"ended"`
	Revisions  int64          `json:"revisions"`
	Tasks      int            `json:"tasks"`
	Pods       int            `json:"pods"`
	Faults     map[string]int `json:"faults"`
	Requests   map[string]int `json:"requests"`
	Steps      map[string]int `json:"steps"`
	Stops      map[string]int `json:"stops,omitempty"`
	Missing    []string       `json:"notInjected,omitempty"`
	Violations []string       `json:"violations"`
	Command    string         `json:"command"`
}

// appendReport appends a campaign to a file of lines of JSON.
func appendReport(path string, result *campaign.Result) error {
	one := line{
		Seed: result.Header.Seed, Duration: result.Header.Duration, Took: result.Took.Round(time.Second).String(), Ended: time.Now().UTC().Truncate(time.Second),
		Revisions: result.Revisions, Tasks: result.Tasks, Pods: result.Pods, Faults: result.Faults, Requests: result.Requests, Steps: result.Steps, Stops: result.Stops,
		Missing: result.NotInjected, Violations: []string{}, Command: result.Header.Command,
	}
	for i := range result.Violations {
		one.Violations = append(one.Violations, result.Violations[i].String())
	}
	return appendLine(path, one)
}
