// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"falldio.github.io/gpu-controller/bench/process"
	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/test/cluster"
)

// ours are the processes that are measured. One process is the agent of all nodes, which is why its row is per node
// elsewhere: bench/nodeagent. kubectl-gputask serves the page, at which nobody looks: bench/dashboard has viewers.
var ours = []string{names.GPUController, names.GPUScheduler, names.NodeAgent, names.KubectlGPUTask}

// baseline is a process of Kubernetes that caches all Nodes and Pods as well.
const baseline = names.ControllerManager

// part is what was measured while the cluster did one thing.
type part struct {
	name string
	// started is how many Pods began to run per second, wanted how many were to: 0 for a cluster at rest.
	started float64
	wanted  int
	// cpu is in cores, memory the largest seen in MiB, by process; writes are successful ones
	// per second.
	cpu    map[string]float64
	memory map[string]int
	writes map[write]float64
	// whole is how much CPU all processes of the cluster used, in cores.
	whole float64
}

// measure fills the cluster and measures it at rest and under churn.
func measure(ctx context.Context, o *options, c *cluster.Cluster, requests string) ([]part, error) {
	w, err := newWork(c)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := w.fill(ctx, o.pods); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "%d Pods run after %v\n", o.pods, time.Since(began).Round(time.Second))
	processes, err := process.OfCluster(c.Dir)
	if err != nil {
		return nil, err
	}
	m := &meter{work: w, processes: processes, requests: requests}
	if err := m.waitForRest(ctx, o.settle); err != nil {
		return nil, err
	}
	rest, err := m.measure(ctx, "at rest", o.rest)
	if err != nil {
		return nil, err
	}
	churn, err := m.measureChurn(ctx, o)
	if err != nil {
		return nil, err
	}
	return []part{*rest, *churn}, nil
}

// restLimit is how long the cluster may take to come to rest. When the last Pods run on a busy machine, the
// statuses of thousands of tasks are still to be written.
const restLimit = 20 * time.Minute

// restWrites is how many writes per second are rest: usage is recorded every minute.
const restWrites = 0.1

// waitForRest waits until our processes hardly write anything for some time. Leases don't count.
func (m *meter) waitForRest(ctx context.Context, length time.Duration) error {
	deadline := time.Now().Add(restLimit)
	for {
		log, err := newAuditLog(m.requests)
		if err != nil {
			return err
		}
		if err := sleep(ctx, length); err != nil {
			return err
		}
		counts, err := log.writes()
		if err != nil {
			return err
		}
		rate := float64(oursWithoutLeases(counts)) / length.Seconds()
		if rate <= restWrites {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%v after all Pods ran, our processes still send %.1f writes per second", restLimit, rate)
		}
	}
}

// measureChurn measures while Pods come and go. If the churn fails, so does the measurement, at once.
func (m *meter) measureChurn(ctx context.Context, o *options) (*part, error) {
	churning, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() {
		err := m.work.churn(churning, o.rate)
		stop(err)
		ended <- err
	}()
	if err := sleep(churning, o.settle); err != nil {
		return nil, err
	}
	churn, err := m.measure(churning, "churn", o.churn)
	if err != nil {
		return nil, err
	}
	churn.wanted = o.rate
	stop(nil)
	return churn, <-ended
}

// meter reads how much the processes of a cluster have used.
type meter struct {
	work      *work
	processes []process.Process
	// requests is the API server's audit log.
	requests string
}

// measure measures for some time.
func (m *meter) measure(ctx context.Context, name string, length time.Duration) (*part, error) {
	cpu, err := process.CPUTimes(m.processes)
	if err != nil {
		return nil, err
	}
	log, err := newAuditLog(m.requests)
	if err != nil {
		return nil, err
	}
	started, began := m.work.started.Load(), time.Now()
	p := &part{name: name, cpu: map[string]float64{}, memory: map[string]int{}, writes: map[write]float64{}}
	for time.Since(began) < length {
		if err := sleep(ctx, time.Second); err != nil {
			return nil, err
		}
		if err := m.readMemory(p); err != nil {
			return nil, err
		}
	}
	passed := time.Since(began).Seconds()
	p.started = float64(m.work.started.Load()-started) / passed
	after, err := process.CPUTimes(m.processes)
	if err != nil {
		return nil, err
	}
	for name := range after {
		p.cpu[name] = (after[name] - cpu[name]) / passed
		if name != process.Self {
			p.whole += p.cpu[name]
		}
	}
	writes, err := log.writes()
	for kind, count := range writes {
		p.writes[kind] = float64(count) / passed
	}
	return p, err
}

func (m *meter) readMemory(p *part) error {
	for i := range m.processes {
		resident, err := process.ResidentMiB(m.processes[i].PID)
		if err != nil {
			return fmt.Errorf("%s: %w", m.processes[i].Name, err)
		}
		p.memory[m.processes[i].Name] = max(p.memory[m.processes[i].Name], resident)
	}
	return nil
}

func sleep(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(length):
		return nil
	}
}
