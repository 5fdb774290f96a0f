// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/hardware/nvml"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	"falldio.github.io/gpu-controller/nodeagent/node/publish"
)

// makeAgents creates the agent of this node, or the agents of all simulated nodes.
func (p *process) makeAgents(ctx context.Context, clients *clients) error {
	boot := monitor.BootID()
	add := func(node string, source gpu.Source, options labels.Options) (*agent, error) {
		agent, err := newAgent(node, source, options, clients, p.opts, boot, p.clock)
		p.agents = append(p.agents, agent)
		return agent, err
	}
	if len(p.opts.Fleet) > 0 {
		held, err := newHeldGPUs(clients.metadata)
		if err != nil {
			return err
		}
		p.held = held
	}
	for i := range p.opts.Fleet {
		node := &p.opts.Fleet[i]
		source := p.sources.Add(node.Name, &node.Profile, p.clock)
		source.BusyWhile(p.held.holds)
		if _, err := add(node.Name, source, labels.Options{Model: node.Model}); err != nil {
			return err
		}
	}
	if len(p.opts.Fleet) > 0 {
		return nil
	}
	agent, err := add(p.opts.nodeName, p.source(), p.opts.labels)
	if err != nil || !p.opts.devicePlugin {
		return err
	}
	agent.keeper = publish.NewKeeper(filepath.Join(p.opts.kubeletDirectory, pluginFolder, keptFile), p.opts.labels)
	injection, err := newInjection(ctx, clients, p.opts, p.clock)
	if err != nil {
		return err
	}
	agent.plugins, err = newPlugins(agent, clients, p.opts, injection)
	return err
}

// source returns the source of this node's GPUs.
func (p *process) source() gpu.Source {
	if p.opts.Simulated() {
		source := p.sources.Add(p.opts.nodeName, p.opts.Profile, p.clock)
		source.FindProcesses(os.DirFS(procDir))
		return source
	}
	return nvml.New(nvml.Options{
		Library: p.opts.NVMLLibrary, PCIeInterval: p.opts.pcieInterval, AllVisible: allVisible(os.Getenv(nvidiaVariable)),
	})
}

// installed returns what reports whether the node has a driver and NVIDIA's toolkit, which gives
// containers access to it; nil for simulated GPUs.
func (o *options) installed() func() bool {
	if o.Simulated() {
		return nil
	}
	return o.injection.nvidia.Installed
}

// allVisible reports whether NVIDIA's runtime has given the agent all GPUs, as far as the
// variable tells that it reads. It is not set outside of containers; with any other value, such
// as "void" for CDI, it is uncertain.
func allVisible(variable string) bool { return variable == "" || variable == "all" }
