// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticksPerSecond is the unit of the times in /proc on every Linux that Go runs on.
const ticksPerSecond = 100

// self is the name of the benchmark's own process.
const self = "(benchmark)"

// process is a process of a cluster.
type process struct {
	pid  int
	name string
	args []string
}

// processes returns those of the cluster in a directory, and this one. They are
// identified by their arguments, which contain the directory.
func processes(dir string) ([]process, error) {
	found := []process{{pid: os.Getpid(), name: self}}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // of /proc
		if err != nil || !bytes.Contains(text, []byte(dir)) {
			continue // it has ended, or is not ours
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		if name := componentName(args); name != "" {
			found = append(found, process{pid: pid, name: name, args: args})
		}
	}
	return found, nil
}

// componentName returns the name of a component by its command line, "" for helpers.
func componentName(args []string) string {
	switch {
	case len(args) > 2 && args[1] == "component":
		return args[2]
	case len(args) > 1 && args[1] == "janitor":
		return ""
	default:
		return filepath.Base(args[0])
	}
}

// flag returns the value of a process's flag.
func (p *process) flag(name string) string {
	for _, arg := range p.args {
		if value, found := strings.CutPrefix(arg, "--"+name+"="); found {
			return value
		}
	}
	return ""
}

// cpuTimes returns the CPU time that each process has used, in seconds.
func cpuTimes(processes []process) (map[string]float64, error) {
	times := map[string]float64{}
	for i := range processes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", processes[i].pid))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", processes[i].name, err)
		}
		spent, err := parseStat(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", processes[i].name, err)
		}
		times[processes[i].name] += spent
	}
	return times, nil
}

// parseStat reads user and system time from a line of /proc/PID/stat, in seconds.
func parseStat(line string) (float64, error) {
	// The command's name stands in brackets and may hold anything.
	_, rest, found := cutLast(line, ") ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 13 {
		return 0, fmt.Errorf("unexpected line %q", line)
	}
	ticks := 0
	for _, field := range fields[11:13] {
		number, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("unexpected line %q: %w", line, err)
		}
		ticks += number
	}
	return float64(ticks) / ticksPerSecond, nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

// minus returns the differences of two maps.
func minus[K comparable, N int | float64](after, before map[K]N) map[K]N {
	difference := map[K]N{}
	for name, value := range after {
		if value != before[name] {
			difference[name] = value - before[name]
		}
	}
	return difference
}

// sum adds up the values of a map.
func sum(values map[string]float64) float64 {
	total := 0.0
	for _, value := range values {
		total += value
	}
	return total
}
