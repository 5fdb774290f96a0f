// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/metrics"
	"falldio.github.io/gpu-controller/nodeagent/node/kube"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	"falldio.github.io/gpu-controller/nodeagent/node/publish"
)

// agent is the agent of one node.
type agent struct {
	node      string
	client    metadata.Interface
	monitor   *monitor.Monitor
	view      *publish.View
	publisher *publish.Publisher
	condition *publish.ConditionWriter
	events    *publish.EventWriter
	metrics   *metrics.Node
	plugins   *plugins        // nil without device plugins
	keeper    *publish.Keeper // nil without device plugins
	clock     clock.Clock
	cleanUp   bool
	// restored is closed once the faults that a previous run found are restored.
	restored chan struct{}
}

func newAgent(node string, source gpu.Source, labelOptions labels.Options, clients *clients, opts *options, bootID string, c clock.Clock) (*agent, error) {
	client, err := clients.forNode(node)
	if err != nil {
		return nil, err
	}
	a := &agent{node: node, client: client, clock: c, cleanUp: opts.cleanUpOnExit, restored: make(chan struct{}), view: publish.NewView()}
	a.monitor = monitor.New(monitor.Config{
		Source: source, Clock: c, Policy: opts.Policy, BootID: bootID, Deadline: opts.PollDeadline,
		Processes: a.readsProcesses, ExpectedGPUs: opts.expectedGPUs,
		Paused: a.view.Paused, Installed: opts.installed(),
	})
	config := publish.Config{
		Node: node, GPUs: a.monitor, Nodes: a.view, Patcher: client.Resource(kube.Nodes), Clock: c,
		Labels: labelOptions, ProbeURL: opts.probing.urlFor(node), Interval: opts.labelInterval,
	}
	a.publisher = publish.New(config)
	a.condition = publish.NewConditionWriter(config, clients.conditions)
	a.events = publish.NewEventWriter(config, clients.events.Recorder(node))
	a.metrics = &metrics.Node{Name: node, GPUs: a.monitor, Writes: a.publisher.Writes}
	return a, nil
}

// run runs the agent until ctx ends. synced is closed once the Node has been seen, if it
// exists.
func (a *agent) run(ctx context.Context, synced <-chan struct{}) error {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "node", a.node)
	ctx = klog.NewContext(ctx, logger)
	group, ctx := errgroup.WithContext(ctx)
	// Not in the group, since they may hang in the driver, like jobs.
	go a.monitor.Watch(ctx)
	go publish.FollowPauses(ctx, a.view, a.monitor)
	group.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-a.monitor.Broken():
			return err
		}
	})
	group.Go(func() error {
		if !a.restore(ctx, synced) {
			return nil
		}
		group.Go(func() error {
			a.events.Run(ctx)
			return nil
		})
		group.Go(func() error {
			a.condition.Run(ctx)
			return a.cleanUpOnExit(ctx, a.condition.CleanUp)
		})
		a.publisher.Run(ctx)
		return a.cleanUpOnExit(ctx, a.publisher.CleanUp)
	})
	if a.plugins != nil {
		group.Go(func() error { return a.plugins.run(ctx, a.monitor, a.restored) })
	}
	if a.keeper != nil {
		group.Go(func() error {
			a.keep(ctx)
			return nil
		})
	}
	return group.Wait()
}

// keptAfter is how long the API server may take to return the GPUs' faults before those that were
// kept on the node count.
const keptAfter = restoreTimeout / 2

// restore restores the faults that a previous run found, before anything is published: from the
// Node, or from the node's own file if the API server does not answer. It returns false if ctx ends
// before the Node has been seen.
func (a *agent) restore(ctx context.Context, synced <-chan struct{}) bool {
	timer := a.clock.NewTimer(keptAfter)
	defer timer.Stop()
	kept := false
	select {
	case <-ctx.Done():
		return false
	case <-synced:
	case <-timer.C():
		kept = a.restoreKept(ctx)
	}
	select {
	case <-ctx.Done():
		return false
	case <-synced:
	}
	if !kept {
		histories, err := a.view.Histories()
		if err != nil {
			klog.FromContext(ctx).Error(err, "Can't restore the GPUs' faults; they will be detected again")
		}
		a.restoreAll(histories)
	}
	return true
}

// restoreKept restores what was kept on the node, and reports whether anything was.
func (a *agent) restoreKept(ctx context.Context) bool {
	if a.keeper == nil {
		return false
	}
	histories, err := a.keeper.Histories()
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			klog.FromContext(ctx).Error(err, "The GPUs' faults that were kept on the node can't be read")
		}
		return false
	}
	klog.FromContext(ctx).Info("The API server does not answer: the GPUs' previous faults are those that were kept on the node")
	a.restoreAll(histories)
	return true
}

func (a *agent) restoreAll(histories map[string]gpu.History) {
	a.monitor.Restore(histories)
	close(a.restored)
}

// keep keeps the GPUs' faults on the node, once those of a previous run are restored.
func (a *agent) keep(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-a.restored:
		a.keeper.Run(ctx, a.monitor)
	}
}

const cleanUpTimeout = 5 * time.Second

// cleanUpOnExit cleans up, if configured. Without it Pods can still be scheduled to the node
// while the agent is replaced.
func (a *agent) cleanUpOnExit(ctx context.Context, cleanUp func(context.Context) error) error {
	if !a.cleanUp {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	return cleanUp(ctx)
}

// readsProcesses reports whether a poll is to read the processes on a GPU.
func (a *agent) readsProcesses(uuid string) bool {
	return a.plugins != nil && a.plugins.use.wanted(uuid)
}

// ready returns why the agent is not ready, or nil.
func (a *agent) ready() error {
	snapshot := a.monitor.Snapshot()
	switch {
	case snapshot.Taken.IsZero() && snapshot.Problem == nil:
		return errors.New("the GPUs have not been polled yet")
	case a.view.Node() == nil:
		return errors.New("there is no Node " + a.node)
	case a.plugins != nil:
		return a.plugins.ready()
	}
	return nil
}
