// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/localcluster/process"
)

// storageTimeout is how long one read may take.
const storageTimeout = 2 * time.Second

// onExit handles the exit of a supervised process. It must not block.
func (c *cluster) onExit(exit process.Exit) {
	if exit.Delay == 0 {
		c.console.trouble("%s: restarting it because %s", exit.Name, exit.Reason)
	} else {
		c.console.trouble("%s: %s; restarting it in %.1fs", exit.Name, exit.Reason, exit.Delay.Seconds())
	}
	switch exit.Name {
	case names.APIServer, names.Etcd:
		trigger(c.storageLost)
	case names.KWOK:
		trigger(c.nodesLost)
	}
}

// trigger wakes up the receiver, unless a wake-up is pending already.
func trigger(lost chan<- struct{}) {
	select {
	case lost <- struct{}{}:
	default:
	}
}

// heal restarts KWOK after a restart of the API server or of etcd: KWOK drops the
// writes that were in flight, and the Pods concerned would never start or end.
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
		c.supervisor.Restart(names.KWOK, "the API server was unavailable")
	}
}

// waitForStorage returns when the API server can read from etcd again. It gets an
// object, which the API server reads from etcd: /readyz checks etcd only once a
// second and caches the result, so it still succeeds just after etcd was lost.
func (c *cluster) waitForStorage(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, nodeInterval, false, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, storageTimeout)
		defer cancel()
		_, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err == nil, nil
	})
}
