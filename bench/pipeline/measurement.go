// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"falldio.github.io/gpu-controller/bench/process"
	"falldio.github.io/gpu-controller/test/cluster"
)

const (
	// nodeGroup is the prefix of the names of the nodes.
	nodeGroup = "n"
	// calm is the pause after a cluster was warmed up, idle how long the idle cluster is
	// observed at the end.
	calm, idle = 2 * time.Second, 5 * time.Second
	// tail is how long the processes may finish work on Pods that already run, such as
	// writing Events and status, before their CPU time is read.
	tail = time.Second
	// startTimeout and startPerNode bound how long a cluster may take to become ready.
	startTimeout, startPerNode = 3 * time.Minute, 50 * time.Millisecond
	// settleStep is how long nothing may be written at the end, settleLimit the longest
	// wait for that.
	settleStep, settleLimit = 1500 * time.Millisecond, time.Minute
)

// measurement describes what to measure.
type measurement struct {
	system *system
	// full is the kind at full scale, by which results are compared; kind is the one that
	// is run.
	full, kind kind
	round      int
	// rate is how many Pods are requested per second, 0 for all at once.
	rate float64
}

func (m *measurement) String() string {
	text := fmt.Sprintf("%s %v round %d", m.system.name, m.kind, m.round)
	if m.rate > 0 {
		text += fmt.Sprintf(" at %.0f Pods/s", m.rate)
	}
	return text
}

// arena is the cluster of one measurement.
type arena struct {
	options   *options
	cluster   *cluster.Cluster
	clients   *clients
	counters  *counters
	processes []process.Process
}

// measure makes a measurement on a cluster of its own.
func measure(ctx context.Context, o *options, m *measurement) (result *record, err error) {
	dir, err := os.MkdirTemp("", "bench-pipeline-")
	if err != nil {
		return nil, err
	}
	var log bytes.Buffer
	defer func() {
		err = errors.Join(err, os.RemoveAll(dir))
		if err != nil {
			err = fmt.Errorf("%v: %w; localcluster said:\n%s", m, err, &log)
		}
	}()
	c, err := cluster.Start(ctx, o.localcluster, filepath.Join(dir, "cluster"), &log, clusterArgs(o, m.system)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	a, err := newArena(o, c)
	if err != nil {
		return nil, err
	}
	return a.run(ctx, m)
}

func clusterArgs(o *options, s *system) []string {
	args := []string{
		fmt.Sprintf("--nodes=name=%s,model=%s,count=%d,gpus=8", nodeGroup, gpuModel, o.nodes),
		"--pod-duration=24h",
		"--start-timeout=" + (startTimeout + time.Duration(o.nodes)*startPerNode).String(),
	}
	if s.scheduler != "" {
		args = append(args, "--scheduler="+s.scheduler)
	}
	if s.controller {
		args = append(args, "--controller="+o.controller, "--controller-arg=--kube-api-qps=5000",
			"--controller-arg=--kube-api-burst=10000", "--controller-arg=--default-image="+image)
		for _, arg := range o.controllerArgs {
			args = append(args, "--controller-arg="+arg)
		}
	}
	return args
}

func newArena(o *options, c *cluster.Cluster) (*arena, error) {
	config, err := c.Config()
	if err != nil {
		return nil, err
	}
	a := &arena{options: o, cluster: c}
	if a.clients, err = newClients(config, o.nodes); err != nil {
		return nil, err
	}
	if a.processes, err = process.OfCluster(c.Dir); err != nil {
		return nil, err
	}
	for i := range a.processes {
		if a.processes[i].Name == "etcd" {
			a.counters, err = newCounters(c.Dir, a.processes[i].Flag("listen-client-urls"), a.clients.kube)
			return a, err
		}
	}
	return nil, errors.New("there is no process of etcd")
}

// run warms the cluster up, measures, and then observes it idle.
func (a *arena) run(ctx context.Context, m *measurement) (*record, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	warm := []*gang{newGang("warm", a.options.warm, a.options.amount)}
	if _, err := a.play(ctx, m.system, warm, []time.Duration{0}); err != nil {
		return nil, fmt.Errorf("warming up: %w", err)
	}
	if err := sleep(ctx, calm); err != nil {
		return nil, err
	}
	stop, err := a.measureUsage(ctx)
	if err != nil {
		return nil, err
	}
	waitForProfiles := a.profile(ctx, m)
	result, err := a.play(ctx, m.system, gangsOf(m.kind, a.options.amount), arrivals(m.kind, m.rate, uint64(m.round))) //nolint:gosec // small
	if err != nil {
		return nil, err
	}
	result.System, result.Kind, result.Gangs, result.Size = m.system.name, m.full.String(), m.kind.gangs, m.kind.size
	result.Round, result.Rate = m.round, m.rate
	if err := waitForProfiles(); err != nil {
		return nil, err
	}
	if err := stop(result); err != nil {
		return nil, err
	}
	result.Idle, err = a.idle(ctx)
	return result, err
}

// play creates gangs, each at a time after the start, and waits until all their Pods run
// and their GPUTasks report it.
func (a *arena) play(ctx context.Context, s *system, gangs []*gang, at []time.Duration) (*record, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	version, err := a.clients.version(ctx)
	if err != nil {
		return nil, err
	}
	works := make([]work, len(gangs))
	for i, g := range gangs {
		works[i] = s.work(a.clients, g)
	}
	t := newTimeline(time.Now(), gangs, at, s.reportsRunning)
	begin := func(do func(context.Context) error) (ended <-chan struct{}) {
		end := make(chan struct{})
		go func() {
			defer close(end)
			if err := do(ctx); err != nil {
				cancel(err)
			}
		}()
		return end
	}
	begin(func(ctx context.Context) error { return follow(ctx, podsOf(a.clients, t), version) })
	if s.reportsRunning {
		begin(func(ctx context.Context) error { return follow(ctx, tasksOf(a.clients, t), version) })
	}
	begin(func(ctx context.Context) error { return play(ctx, works, t.start, at) })
	finished := begin(func(ctx context.Context) error { return finish(ctx, works, t.complete) })
	if err := await(ctx, t, t.start.Add(at[len(at)-1])); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	<-finished // it may still wait for a response
	return &record{outcome: t.outcome()}, nil
}

// idle returns how many seconds of CPU time per second each process uses when there is
// nothing to do.
func (a *arena) idle(ctx context.Context) (map[string]float64, error) {
	before, err := process.CPUTimes(a.processes)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := sleep(ctx, idle); err != nil {
		return nil, err
	}
	after, err := process.CPUTimes(a.processes)
	if err != nil {
		return nil, err
	}
	rates := minus(after, before)
	for name, seconds := range rates {
		rates[name] = seconds / time.Since(start).Seconds()
	}
	return rates, nil
}

// measureUsage starts to measure what is used; the function that it returns stops, once
// nothing is written any more, and stores the result.
func (a *arena) measureUsage(ctx context.Context) (func(*record) error, error) {
	events, err := a.clients.events(ctx)
	if err != nil {
		return nil, err
	}
	first, err := a.counters.read(ctx)
	if err != nil {
		return nil, err
	}
	machine, err := machineTime()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	before, err := process.CPUTimes(a.processes)
	if err != nil {
		return nil, err
	}
	return func(r *record) error {
		if err := sleep(ctx, tail); err != nil {
			return err
		}
		after, err := process.CPUTimes(a.processes)
		if err != nil {
			return err
		}
		busy, err := machineTime()
		if err != nil {
			return err
		}
		r.CPU = minus(after, before)
		r.Others = busy - machine - sum(r.CPU)
		r.Window = time.Since(start).Seconds()
		last, err := a.settle(ctx)
		if err != nil {
			return err
		}
		written := last.since(first)
		r.Background, r.Writes, r.SlowestBinding = written.background, written.writes, written.slowestBinding()
		r.Puts = written.puts - written.background
		all, err := a.clients.events(ctx)
		r.Events = minus(all, events)
		return err
	}, nil
}

// settle waits until only the background writes.
func (a *arena) settle(ctx context.Context) (counts, error) {
	deadline := time.Now().Add(settleLimit)
	last, err := a.counters.read(ctx)
	for err == nil && time.Now().Before(deadline) {
		before := last
		if err = sleep(ctx, settleStep); err != nil {
			break
		}
		if last, err = a.counters.read(ctx); err == nil && maps.Equal(last.writes, before.writes) {
			return last, nil
		}
	}
	return last, errors.Join(err, fmt.Errorf("writes went on %v after all Pods ran", settleLimit))
}
