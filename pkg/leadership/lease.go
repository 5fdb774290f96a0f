// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/leaderelection"
)

// ErrSuperseded means that another process was the leader after this one, which does not
// know what that process has done.
var ErrSuperseded = errors.New("another process was the leader meanwhile")

// Hold competes for a lease, whose lock the Guard watches, until ctx ends. A process that
// failed to renew it in time, and gets it back before any other process has held it,
// continues; otherwise the error is ErrSuperseded.
func (g *Guard) Hold(ctx context.Context, config leaderelection.LeaderElectionConfig) error {
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(config)
		if err != nil {
			return fmt.Errorf("leader election: %w", err)
		}
		if g.hold(ctx, elector); isClosed(g.superseded) {
			return ErrSuperseded
		}
	}
	return nil
}

// hold returns when the lease is lost.
func (g *Guard) hold(ctx context.Context, elector *leaderelection.LeaderElector) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-ctx.Done():
		case <-g.superseded:
			cancel()
		}
	}()
	elector.Run(ctx)
}
