// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Etcd returns a client of the cluster's etcd, which has every revision of every object.
func (c *Cluster) Etcd(ctx context.Context) (*clientv3.Client, error) {
	address, err := c.EtcdAddress()
	if err != nil {
		return nil, fmt.Errorf("finding etcd: %w", err)
	}
	pki := func(name string) string { return filepath.Join(c.Dir, "pki", name) }
	tls, err := transport.TLSInfo{CertFile: pki("etcd-client.crt"), KeyFile: pki("etcd-client.key"), TrustedCAFile: pki("etcd-ca.crt")}.ClientConfig()
	if err != nil {
		return nil, err
	}
	// Its logs are about servers that are down: whoever kills them knows.
	return clientv3.New(clientv3.Config{Endpoints: []string{address}, TLS: tls, Context: ctx, Logger: zap.NewNop()})
}
