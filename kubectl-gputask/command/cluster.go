// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// clusterFlags are the flags of the commands that look at the whole cluster.
type clusterFlags struct {
	levels string
}

func (f *clusterFlags) addTo(command *cobra.Command) {
	command.Flags().StringVar(&f.levels, "topology-levels", "",
		"topology levels and their node labels, widest first, as configured for gpu-scheduler: rack=example.com/rack,leaf=example.com/leaf (default zone, rack and leaf)")
	complete(command, "topology-levels", noCompletion)
}

// parse returns the default levels if none were given.
func (f *clusterFlags) parse() (snapshot.Levels, error) {
	if f.levels == "" {
		return snapshot.DefaultLevels(), nil
	}
	levels, err := snapshot.ParseLevels(f.levels)
	if err != nil {
		return nil, fmt.Errorf("--topology-levels=%s: %w", f.levels, err)
	}
	return levels, nil
}

// observe connects to the cluster and lists everything that decisions depend on.
func (s *session) observe(ctx context.Context, f *clusterFlags) (*cluster.Clients, *cluster.Observation, error) {
	levels, err := f.parse()
	if err != nil {
		return nil, nil, err
	}
	clients, err := s.connect()
	if err != nil {
		return nil, nil, err
	}
	observed, err := cluster.Observe(ctx, clients, levels, s.Clock.Now())
	if err != nil {
		return nil, nil, fmt.Errorf("looking at the cluster: %w", err)
	}
	return clients, observed, nil
}

// noteUnknownQueues tells that an answer does not take the GPUQueues into account.
func (s *session) noteUnknownQueues(observed *cluster.Observation) {
	if observed.Queues.Unknown != "" {
		fmt.Fprintf(s.ErrOut, "\nGPUQueues are not considered: %s.\n", observed.Queues.Unknown)
	}
}
