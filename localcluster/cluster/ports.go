// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const loopback = "127.0.0.1"

// Ports are chosen below the ephemeral range: while a component restarts, no
// client's connection (least of all one to that very component) can take its port.
const (
	firstPort    = 20000
	portCount    = 10000
	portAttempts = 200
)

// ports are the ports of the cluster's servers on the loopback interface, for
// the life of the cluster.
type ports struct {
	etcd, etcdPeer, apiServer, controllerManager, scheduler, kwok, kubelet, gpuController, nodeAgent, dashboard, journal int
}

func (p *ports) all() []*int {
	return []*int{&p.etcd, &p.etcdPeer, &p.apiServer, &p.controllerManager, &p.scheduler, &p.kwok, &p.kubelet, &p.gpuController, &p.nodeAgent, &p.dashboard, &p.journal}
}

// freePorts chooses ports that are free now.
func freePorts(ctx context.Context) (ports, error) {
	var chosen ports
	var held []net.Listener // so that no port is chosen twice
	defer func() {
		for _, listener := range held {
			_ = listener.Close()
		}
	}()
	for _, port := range chosen.all() {
		listener, number, err := listen(ctx)
		if err != nil {
			return ports{}, err
		}
		held = append(held, listener)
		*port = number
	}
	return chosen, nil
}

func listen(ctx context.Context) (net.Listener, int, error) {
	var config net.ListenConfig
	var last error
	for range portAttempts {
		port := firstPort + rand.IntN(portCount) //nolint:gosec // no secret
		listener, err := config.Listen(ctx, "tcp", address(port))
		if err == nil {
			return listener, port, nil
		}
		last = err
	}
	return nil, 0, fmt.Errorf("finding a free port on %s: %w", loopback, errors.Join(last, ctx.Err()))
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
