// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/pkg/clusterview"
)

const (
	// partPeriod is how often the tasks of a namespace are listed for a user who may not see the whole cluster, while
	// somebody looks.
	partPeriod = 3 * time.Second
	// rightsPeriod is how often such a user's rights are tried again.
	rightsPeriod = 30 * time.Second
)

// showPart shows a user who may not see the whole cluster the tasks of one namespace, and why not more. It returns when
// it is time to try the whole cluster again.
func (f *feed) showPart(ctx context.Context, forbidden error) {
	deadline := f.options.Clock.After(rightsPeriod)
	for {
		if f.watched() {
			if err := f.put(f.part(ctx, forbidden)); err != nil {
				klog.FromContext(ctx).Error(err, "The page of one namespace can't be brought up to date")
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-deadline:
			return
		case <-f.changed: // somebody looks
		case <-f.options.Clock.After(partPeriod):
		}
	}
}

// part returns the rows of one namespace.
func (f *feed) part(ctx context.Context, forbidden error) rows.Set {
	clients, known := f.options.Clients, f.known()
	known.Hidden = append(known.Hidden, "Nodes, plans and other namespaces are not shown. "+forbidden.Error())
	work, err := cluster.ListWork(ctx, clients, clients.Namespace)
	if err != nil {
		known.Hidden = append(known.Hidden, "The tasks of namespace "+clients.Namespace+" are not shown either: "+err.Error())
		return rows.Set{rows.Summaries: {"": known}}
	}
	list, err := cluster.ListQueues(ctx, clients, clients.Namespace)
	if err != nil {
		list = &cluster.QueueList{Unknown: err.Error()}
	}
	objects := &clusterview.Objects{Tasks: work.Tasks, Levels: f.options.Levels, Now: f.options.Clock.Now()}
	set, _ := rows.Build(&rows.Input{
		View: analysis.NewView(objects, nil), Queues: list.ForAnalysis(), Waiting: work.Pods, Known: known, Partial: true,
	})
	return set
}
