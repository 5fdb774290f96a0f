// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process finds the processes of a local cluster, and reads how much CPU time and memory
// processes use, from /proc.
package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// TicksPerSecond is the unit of the times in /proc on every Linux that Go runs on.
const TicksPerSecond = 100

// Self is the name of the benchmark's own process.
const Self = "(benchmark)"

// Process is a process of a cluster.
type Process struct {
	PID int
	// Name is that of a component or program.
	Name string
	args []string
}

// OfCluster returns those of the cluster in a directory, and this one. They are
// identified by their arguments, which contain the directory.
func OfCluster(dir string) ([]Process, error) {
	found := []Process{{PID: os.Getpid(), Name: Self}}
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
			found = append(found, Process{PID: pid, Name: name, args: args})
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

// Flag returns the value of a process's flag.
func (p *Process) Flag(name string) string {
	for _, arg := range p.args {
		if value, found := strings.CutPrefix(arg, "--"+name+"="); found {
			return value
		}
	}
	return ""
}

// CPUTimes returns the CPU time that each process has used, in seconds, by their names.
func CPUTimes(processes []Process) (map[string]float64, error) {
	times := map[string]float64{}
	for i := range processes {
		spent, err := CPUTime(processes[i].PID)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", processes[i].Name, err)
		}
		times[processes[i].Name] += spent
	}
	return times, nil
}

// CPUTime returns the CPU time that a process has used, in seconds.
func CPUTime(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStat(string(text))
}

// ResidentMiB returns the resident memory of a process in MiB.
func ResidentMiB(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	const resident = 1 // proc_pid_statm(5)
	if len(fields) <= resident {
		return 0, fmt.Errorf("unexpected line %q", text)
	}
	pages, err := strconv.Atoi(fields[resident])
	return pages * os.Getpagesize() >> 20, err
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
	return float64(ticks) / TicksPerSecond, nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}
