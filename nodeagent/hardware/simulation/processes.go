// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

var _ gpu.ProcessSource = (*Source)(nil)

// FindProcesses lets the Source find processes in a procfs: nothing uses a simulated GPU, but a
// process that was given one has it in its environment. Call it before Open.
func (s *Source) FindProcesses(proc fs.FS) { s.proc = proc }

// visiblePrefix is how the names of the variables begin that tell a process its simulated GPUs:
// the value is the UUID of one, or a list.
const visiblePrefix = "FALLDIO_"

// user is a process that was given a GPU, and its share of it in percent.
type user struct{ pid, percent int }

// Processes divides what the GPU measures among the processes that were given it, in
// proportion to their shares; what nobody was given, nobody uses.
func (s *Source) Processes(uuid string) (*gpu.ProcessSample, error) {
	if s.proc == nil {
		return nil, fmt.Errorf("the processes on simulated GPUs: %w", gpu.ErrUnsupported)
	}
	users, err := usersOf(s.proc, uuid)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byUUID[uuid]
	if one == nil || one.removed || one.lost {
		return nil, fmt.Errorf("simulated GPU %s: %w", uuid, gpu.ErrLost)
	}
	whole := s.profile.values(&one.info, s.clock.Now(), one.reset, one.eccUncorrected)
	sample := &gpu.ProcessSample{Measured: []gpu.Quantity{gpu.MemoryUsed, gpu.Utilization, gpu.MemoryUtilization}}
	given := 0
	for _, user := range users {
		given += user.percent
	}
	for _, user := range users {
		part := float64(user.percent) / float64(max(share.PerGPU, given))
		process := gpu.Process{PID: user.pid, Values: gpu.Values{}}
		for _, quantity := range sample.Measured {
			process.Values[quantity] = whole[quantity] * part
		}
		sample.Processes = append(sample.Processes, process)
	}
	return sample, nil
}

// usersOf returns the processes in a procfs that were given a GPU, in the order of their PIDs.
func usersOf(proc fs.FS, uuid string) ([]user, error) {
	entries, err := fs.ReadDir(proc, ".")
	if err != nil {
		return nil, fmt.Errorf("listing the processes: %w", err)
	}
	var users []user
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		environment, err := fs.ReadFile(proc, entry.Name()+"/environ")
		if err != nil {
			continue // it has ended, or it may not be read
		}
		if percent := percentOf(string(environment), uuid); percent > 0 {
			users = append(users, user{pid, percent})
		}
	}
	slices.SortFunc(users, func(a, b user) int { return a.pid - b.pid })
	return users, nil
}

// percentOf returns how much of a GPU a process was given, according to its environment.
func percentOf(environment, uuid string) int {
	if !strings.Contains(environment, uuid) {
		return 0
	}
	given, percent := false, share.PerGPU
	for variable := range strings.SplitSeq(environment, "\x00") {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case strings.HasPrefix(name, visiblePrefix):
			given = given || slices.Contains(strings.Split(value, ","), uuid)
		case name == share.Variable:
			if number, err := strconv.Atoi(value); err == nil && number > 0 {
				percent = number
			}
		}
	}
	if !given {
		return 0
	}
	return percent
}
