// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"falldio.github.io/gpu-controller/nodeagent/node/kube"
)

// nodeNameExtra is what the API server knows about the bearer of a token that is
// bound to a Node, or to a Pod on a Node.
const nodeNameExtra = "authentication.kubernetes.io/node-name"

// clients are the connections to the API server.
type clients struct {
	config      *rest.Config
	impersonate string
	metadata    metadata.Interface
	recorder    record.EventRecorder
}

func newClients(ctx context.Context, config *rest.Config, impersonate string) (*clients, error) {
	c := &clients{config: config, impersonate: impersonate}
	c.config.Impersonate.UserName = impersonate
	// Writes are rare, and those of many nodes in one process are no one's burst.
	c.config.QPS = -1
	var err error
	if c.metadata, err = kube.Metadata(c.config); err != nil {
		return nil, err
	}
	c.recorder, err = kube.NewRecorder(ctx, c.config, "nodeagent")
	return c, err
}

// ofNode returns the client that writes for a node's agent. If another user is
// impersonated, then as if with a token that is bound to the Node.
func (c *clients) ofNode(node string) (metadata.Interface, error) {
	if c.impersonate == "" {
		return c.metadata, nil
	}
	config := rest.CopyConfig(c.config)
	config.Impersonate.Extra = map[string][]string{nodeNameExtra: {node}}
	return kube.Metadata(config)
}
