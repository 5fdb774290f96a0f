// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/usage"
)

// loadPeriod is how often the node agents are asked how busy the GPUs are, while somebody looks: they measure as often.
const loadPeriod = 5 * time.Second

// load is how busy the GPUs are. It is safe for concurrent use.
type load struct {
	options *Options
	changed func()

	mu    sync.Mutex
	known analysis.Utilization
}

func (l *load) last() analysis.Utilization {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known
}

// run asks until ctx ends, while it is wanted.
func (l *load) run(ctx context.Context, wanted func() bool, follower *cluster.Follower) {
	asker := &usage.Asker{Kube: l.options.Clients.Kube, HTTP: l.options.HTTP, URLs: l.options.MetricsURLs, Server: l.options.Clients.Config.Host}
	ask := func() {
		if wanted() {
			observed := follower.Watcher.Observe(l.options.Clock.Now())
			known, err := asker.Ask(ctx, observed.Nodes, observed.Pods)
			if err != nil {
				klog.FromContext(ctx).V(1).Info("Not all node agents report how busy the GPUs are", "err", err)
			}
			l.mu.Lock()
			l.known = known
			l.mu.Unlock()
			l.changed()
		}
	}
	ask()
	cluster.Every(ctx, l.options.Clock, loadPeriod, ask)
}
