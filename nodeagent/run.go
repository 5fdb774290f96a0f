// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/robfig/cron/v3"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
	"falldio.github.io/gpu-controller/nodeagent/metrics"
	"falldio.github.io/gpu-controller/nodeagent/node/publish"
	"falldio.github.io/gpu-controller/nodeagent/probe"
	"falldio.github.io/gpu-controller/nodeagent/probe/simulated"
	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/pkg/restconfig"
)

// process has the agents of this process: one, except in simulations of many nodes.
type process struct {
	opts   *options
	clock  clock.Clock
	agents []*agent
	// synced is closed once the Nodes have been seen.
	synced chan struct{}
	// heartbeat is when the jobs last ran.
	heartbeat atomic.Pointer[time.Time]
	sources   simulation.Sources
	// held are the GPUs of simulated nodes that Pods have; nil without --simulated-nodes.
	held *heldGPUs
	// probes serves /probe, for simulated nodes with the simulated network.
	probes  *probe.Handler
	network *simulated.Network
}

// run connects to the API server and runs the agents until ctx ends.
func run(ctx context.Context, opts *options) error {
	klog.FromContext(ctx).Info("Starting nodeagent", "version", version, "node", opts.nodeName)
	config, err := restconfig.Load(opts.kubeconfig, "nodeagent")
	if err != nil {
		return err
	}
	clients, err := newClients(ctx, config, opts.impersonate)
	if err != nil {
		return err
	}
	p := &process{opts: opts, clock: clock.RealClock{}, synced: make(chan struct{}), sources: simulation.Sources{}}
	if err := p.makeAgents(ctx, clients); err != nil {
		return err
	}
	p.probes = p.probing()
	return p.work(ctx, clients)
}

func (p *process) work(ctx context.Context, clients *clients) error {
	server, err := p.server(clients.config)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx) })
	group.Go(func() error {
		return publish.WatchNodes(ctx, clients.metadata, p.views(), func() { close(p.synced) })
	})
	if p.held != nil {
		group.Go(func() error {
			p.held.run(ctx)
			return nil
		})
	}
	for _, agent := range p.agents {
		group.Go(func() error { return agent.run(ctx, p.synced) })
	}
	group.Go(func() error {
		p.jobs(ctx).run()
		return nil
	})
	return group.Wait()
}

func (p *process) views() map[string]*publish.View {
	views := make(map[string]*publish.View, len(p.agents))
	for _, agent := range p.agents {
		views[agent.node] = agent.view
	}
	return views
}

// jobs returns the periodic jobs.
func (p *process) jobs(ctx context.Context) *jobs {
	jobs := newJobs(ctx)
	everySecond := cron.Every(time.Second)
	jobs.add(everySecond, func(context.Context) { p.heartbeat.Store(new(p.clock.Now())) })
	for _, agent := range p.agents {
		jobs.add(p.opts.schedule, agent.monitor.Poll)
		jobs.add(everySecond, agent.monitor.CheckDeadline)
		if agent.plugins != nil {
			jobs.add(cron.Every(refreshEvery), agent.plugins.refresh)
		}
	}
	if p.opts.SimulationFaults != "" {
		file := p.sources.FaultFile(p.opts.SimulationFaults)
		jobs.add(everySecond, func(ctx context.Context) {
			if err := file.Check(); err != nil {
				klog.FromContext(ctx).Error(err, "The faults of the simulation can't be read")
			}
		})
	}
	if p.network != nil && p.opts.probing.networkFile != "" {
		file := p.network.File(p.opts.probing.networkFile)
		jobs.add(everySecond, func(ctx context.Context) {
			if err := file.Check(); err != nil {
				klog.FromContext(ctx).Error(err, "The simulated network can't be read")
			}
		})
	}
	return jobs
}

// server serves metrics and health. It accepts faults only from this machine.
func (p *process) server(kube *rest.Config) (*endpoints.Server, error) {
	registry := prometheus.NewRegistry()
	nodes := make([]*metrics.Node, 0, len(p.agents))
	for _, agent := range p.agents {
		nodes = append(nodes, agent.metrics)
	}
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		metrics.NewCollector(p.clock, p.opts.dcgmNames, nodes...),
		p.probes.Collector(),
	)
	settings := endpoints.Settings{Options: p.opts.endpoints, Flag: "bind-address", Address: p.opts.bindAddress, Kube: kube}
	server, err := endpoints.New(settings, promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}), p.alive, p.ready)
	if err != nil {
		return nil, err
	}
	server.Handle("GET "+endpoints.ProbePath, p.probes)
	if len(p.sources) > 0 {
		server.Handle("POST /simulation/faults", endpoints.OnlyLoopback(p.sources.Handler()))
	}
	return server, nil
}

// livenessTimeout is how long no job may run before the kubelet should restart the agent. A
// hanging driver does not stop them: a new agent would hang as well, and the device plugin
// would be gone meanwhile.
const livenessTimeout = time.Minute

func (p *process) alive(*http.Request) error {
	if heartbeat := p.heartbeat.Load(); heartbeat != nil && p.clock.Since(*heartbeat) > livenessTimeout {
		return fmt.Errorf("no job was run for %v", p.clock.Since(*heartbeat).Round(time.Second))
	}
	return nil
}

func (p *process) ready(*http.Request) error {
	var problems []error
	for _, agent := range p.agents {
		problems = append(problems, agent.ready())
	}
	return errors.Join(problems...)
}
