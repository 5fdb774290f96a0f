// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"falldio.github.io/gpu-controller/nodeagent/node/kube"
)

// nodeNameExtra is the user info's extra key with the node name of a token that is bound to a
// Node, or to a Pod on a Node.
const nodeNameExtra = "authentication.kubernetes.io/node-name"

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

// forNode returns the client that writes for a node's agent. It impersonates the user, if one
// is set, as if with a token that is bound to the Node.
func (c *clients) forNode(node string) (metadata.Interface, error) {
	if c.impersonate == "" {
		return c.metadata, nil
	}
	return kube.Metadata(c.configFor(node))
}

// configFor returns the configuration of the clients that write for a node's agent.
func (c *clients) configFor(node string) *rest.Config {
	if c.impersonate == "" {
		return c.config
	}
	config := rest.CopyConfig(c.config)
	config.Impersonate.Extra = map[string][]string{nodeNameExtra: {node}}
	return config
}
