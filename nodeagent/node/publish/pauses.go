// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"

	"falldio.github.io/gpu-controller/nodeagent/node/labels"
)

// Paused returns why the driver must be left alone, by the labels of the Node, or nil.
func (v *View) Paused() error {
	if node := v.Node(); node != nil {
		return labels.Paused(node.Labels)
	}
	return nil
}

// Poller polls GPUs; it is the monitor.
type Poller interface {
	Poll(ctx context.Context)
}

// FollowPauses polls as soon as the driver must be left alone, or no longer must, until ctx ends:
// whoever works on the driver does not wait for the next poll.
func FollowPauses(ctx context.Context, node *View, gpus Poller) {
	paused := false
	for {
		changed := node.Changed()
		if now := node.Paused() != nil; now != paused {
			paused = now
			gpus.Poll(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}
