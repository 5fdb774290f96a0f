// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"falldio.github.io/gpu-controller/nodeagent/node/kube"
)

// clients are the clients of the API server.
type clients struct {
	config      *rest.Config
	impersonate string
	metadata    metadata.Interface
	events      *kube.Events
	conditions  *kube.ConditionReader
}

func newClients(ctx context.Context, config *rest.Config, impersonate string) (*clients, error) {
	c := &clients{config: config, impersonate: impersonate}
	c.config.Impersonate.UserName = impersonate
	// Writes are rare, and a process with many nodes must not be throttled.
	c.config.QPS = -1
	var err error
	if c.metadata, err = kube.Metadata(c.config); err != nil {
		return nil, err
	}
	if c.conditions, err = kube.NewConditionReader(c.config); err != nil {
		return nil, err
	}
	c.events = kube.NewEvents(ctx, "nodeagent", c.configFor)
	return c, nil
}

// forNode returns the client that writes for a node's agent.
func (c *clients) forNode(node string) (metadata.Interface, error) {
	if c.impersonate == "" {
		return c.metadata, nil
	}
	return kube.Metadata(c.configFor(node))
}

// configFor returns the configuration of the clients that write for a node's agent.
func (c *clients) configFor(node string) *rest.Config {
	return kube.ConfigFor(c.config, c.impersonate, node)
}
