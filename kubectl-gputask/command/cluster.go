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

// observer is what commands have in common that look at the whole cluster.
type observer struct {
	levels string
}

func (o *observer) addTo(command *cobra.Command) {
	command.Flags().StringVar(&o.levels, "topology-levels", "",
		"levels of the topology and the node labels that name their domains, widest first, as gpu-scheduler has them: rack=example.com/rack,leaf=example.com/leaf (default zone, rack and leaf)")
	complete(command, "topology-levels", nothing)
}

// parse returns the default levels if none were given.
func (o *observer) parse() (snapshot.Levels, error) {
	if o.levels == "" {
		return snapshot.DefaultLevels(), nil
	}
	levels, err := snapshot.ParseLevels(o.levels)
	if err != nil {
		return nil, fmt.Errorf("--topology-levels=%s: %w", o.levels, err)
	}
	return levels, nil
}

// observe looks at the whole cluster.
func (s *session) observe(ctx context.Context, o *observer) (*cluster.Clients, *cluster.Observation, error) {
	levels, err := o.parse()
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
