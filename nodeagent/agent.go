// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
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

// agent watches the GPUs of one node.
type agent struct {
	node      string
	client    metadata.Interface
	monitor   *monitor.Monitor
	view      *publish.View
	publisher *publish.Publisher
	events    *publish.EventWriter
	metrics   *metrics.Node
	plugins   *plugins // nil without device plugins
	clock     clock.Clock
	cleanUp   bool
	// restored is closed when what an earlier life has found is known.
	restored chan struct{}
}

func newAgent(node string, source gpu.Source, labelOptions labels.Options, clients *clients, opts *options, bootID string, c clock.Clock) (*agent, error) {
	client, err := clients.ofNode(node)
	if err != nil {
		return nil, err
	}
	a := &agent{
		node: node, client: client, clock: c, cleanUp: opts.cleanUpOnExit, restored: make(chan struct{}),
		monitor: monitor.New(monitor.Config{
			Source: source, Clock: c, Policy: opts.policy, BootID: bootID, Deadline: opts.pollDeadline,
		}),
		view: publish.NewView(),
	}
	config := publish.Config{
		Node: node, GPUs: a.monitor, Nodes: a.view, Patcher: client.Resource(kube.Nodes), Clock: c,
		Labels: labelOptions, ProbeURL: opts.probing.urlOf(node), Interval: opts.labelInterval,
	}
	a.publisher = publish.New(config)
	a.events = publish.NewEventWriter(config, clients.recorder)
	a.metrics = &metrics.Node{Name: node, GPUs: a.monitor, Writes: a.publisher.Statistics().Counts}
	return a, nil
}

// run works until ctx ends. synced ends when the Node has been seen, if there is
// one.
func (a *agent) run(ctx context.Context, synced <-chan struct{}) error {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "node", a.node)
	ctx = klog.NewContext(ctx, logger)
	group, ctx := errgroup.WithContext(ctx)
	// It is not waited for: it may hang in the driver, as jobs may.
	go a.monitor.Watch(ctx)
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
		a.publisher.Run(ctx)
		return a.leave(ctx)
	})
	if a.plugins != nil {
		group.Go(func() error { return a.plugins.run(ctx, a.monitor, a.restored) })
	}
	return group.Wait()
}

// restore takes over what an earlier life has found, before anything is
// published. It returns false if ctx ends before the Node has been seen.
func (a *agent) restore(ctx context.Context, synced <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-synced:
	}
	faults, err := a.view.Faults()
	if err != nil {
		klog.FromContext(ctx).Error(err, "What was known of the GPUs is lost; it is found out again")
	}
	a.monitor.Restore(faults)
	close(a.restored)
	return true
}

const cleanUpTimeout = 5 * time.Second

// leave cleans up, if that is wanted. Without it Pods keep finding the node while
// the agent is replaced.
func (a *agent) leave(ctx context.Context) error {
	if !a.cleanUp {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	return a.publisher.CleanUp(ctx)
}

// ready returns what the agent still waits for.
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
