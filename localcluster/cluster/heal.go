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

// onExit hears of each end of a process that shall run. It must not block.
func (c *cluster) onExit(exit process.Exit) {
	if exit.Delay == 0 {
		c.console.trouble("%s: starting it again, because %s", exit.Name, exit.Reason)
	} else {
		c.console.trouble("%s: %s; starting it again in %.1fs", exit.Name, exit.Reason, exit.Delay.Seconds())
	}
	switch exit.Name {
	case names.APIServer, names.Etcd:
		remember(c.storageLost)
	case names.KWOK:
		remember(c.nodesLost)
	}
}

// remember leaves a word for whoever heals, unless there is one already.
func remember(lost chan<- struct{}) {
	select {
	case lost <- struct{}{}:
	default:
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

// waitForStorage returns when the API server can read from etcd again. It reads
// an object, which the API server fetches from etcd: /readyz asks etcd only
// once a second and repeats the last answer in between, so that it still says
// yes just after etcd was lost.
func (c *cluster) waitForStorage(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, nodeInterval, false, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, storageTimeout)
		defer cancel()
		_, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err == nil, nil
	})
}
