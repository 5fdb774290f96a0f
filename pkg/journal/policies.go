// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// The policies by name. Packing is gpu-scheduler's, with all that it had learned; the others are what clusters
// without it do.
const (
	Packing    = "packing"
	FewestFree = "fewest-free"
	MostFree   = "most-free"
	FirstNode  = "first-node"
)

// Policies returns the names of the policies that decisions can be replayed with.
func Policies() []string { return []string{Packing, FewestFree, MostFree, FirstNode} }

// CheckPolicy returns an error if there is no policy of a name.
func CheckPolicy(name string) error {
	if slices.Contains(Policies(), name) {
		return nil
	}
	return fmt.Errorf("there is no policy %q, the policies are %s", name, strings.Join(Policies(), ", "))
}

// policyNamed returns a policy, and the same as one that learns if it does.
func policyNamed(name string) (policy placement.Policy, learner *packing.Policy, err error) {
	switch name {
	case Packing:
		learner = packing.New(packing.Default())
		return learner, learner, nil
	case FewestFree:
		return byFree{sign: 1}, nil, nil
	case MostFree:
		return byFree{sign: -1}, nil, nil
	case FirstNode:
		return byFree{}, nil, nil
	default:
		return nil, nil, CheckPolicy(name)
	}
}

// byFree prices a node by the GPUs that are free afterwards, in GPUs, and by its free cores for a Pod without any: with
// sign 1 Pods go where the fewest are left, with -1 where the most are, and with 0 to the first node by name.
type byFree struct{ sign float64 }

var _ placement.Policy = byFree{}

// Begin implements placement.Policy.
func (byFree) Begin(*placement.Cluster, *placement.Request) {}

// Epoch implements placement.Policy.
func (byFree) Epoch() uint64 { return 0 }

// Price implements placement.Policy.
func (p byFree) Price(step placement.Step) float64 {
	const milli = 1000
	if step.Request.Percent() == 0 {
		return p.sign * float64(step.After.CPU()) / milli
	}
	return p.sign * float64(step.After.Percent()) / placement.Card
}

// Surcharge implements placement.Policy.
func (byFree) Surcharge(*placement.Request, *placement.State) float64 { return 0 }
