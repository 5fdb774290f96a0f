// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/util/wait"

	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/localcluster/process"
)

// onExit hears of each end of a process that shall run. It must not block.
func (c *cluster) onExit(exit process.Exit) {
	if exit.Delay == 0 {
		c.console.trouble("%s: starting it again, because %s", exit.Name, exit.Reason)
	} else {
		c.console.trouble("%s: %s; starting it again in %.1fs", exit.Name, exit.Reason, exit.Delay.Seconds())
	}
	if exit.Name == names.APIServer || exit.Name == names.Etcd {
		select {
		case c.storageLost <- struct{}{}:
		default: // somebody will look at it already
		}
	}
}

// heal repairs what a restart of the API server or of etcd leaves broken in
// other components: KWOK forgets what it was about to write just then, and such
// a Pod would never start or never end.
func (c *cluster) heal(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.storageLost:
		}
		if err := c.waitForStorage(ctx); err != nil {
			return // only if ctx is done
		}
		c.supervisor.Restart(names.KWOK, "the API server was away")
	}
}

// waitForStorage returns when the API server can read and write again.
func (c *cluster) waitForStorage(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, nodeInterval, false, func(ctx context.Context) (bool, error) {
		return probe(ctx, c.https, c.apiServerReadyz()) == nil, nil
	})
}
