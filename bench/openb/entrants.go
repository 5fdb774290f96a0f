// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"reflect"
	"slices"

	"falldio.github.io/gpu-controller/bench/openb/baselines"
	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// policy is a placement.Policy that may learn from arrivals.
type policy interface {
	placement.Policy
	Learn(cluster *placement.Cluster, r *placement.Request)
}

// expectant is a policy that makes use of what is known about how long Pods run.
type expectant interface {
	// LearnEnding is Learn for a Pod that is expected to end.
	LearnEnding(cluster *placement.Cluster, r *placement.Request)
}

// entrant is a policy and the settings of its replay.
type entrant struct {
	policy  string
	ties    string
	mix     string
	without string
	// migrate is how many of the placed Pods may be moved, in percent.
	migrate float64
}

// newPolicy returns a policy that has not seen any request.
func (e *entrant) newPolicy(trace []dataset.Pod, seed int64) policy {
	var score baselines.Score
	switch e.policy {
	case ours:
		return packing.New(parameters(e.without))
	case random:
		return baselines.NewRandom(seed)
	case fgd:
		score = newFGD(e.mix, trace)
	case bestFit:
		score = baselines.BestFit{}
	case dotProd:
		score = baselines.DotProd{}
	}
	if e.ties == byLot {
		return baselines.ByLot(score, seed)
	}
	return baselines.ByName(score)
}

func newFGD(mix string, trace []dataset.Pod) *baselines.FGD {
	if mix == learned {
		return baselines.NewLearningFGD()
	}
	shapes := make([]placement.Shape, len(trace))
	for i := range trace {
		shapes[i] = trace[i].Shape
	}
	return baselines.NewFGD(shapes)
}

// teach shows ours the whole trace, if it may know it, in random order: ours updates what
// it has learned only now and then, and traces have their largest Pods at the end. FGD
// gets the trace when it is created.
func (e *entrant) teach(p policy, cluster *placement.Cluster, trace []dataset.Pod, seed int64) {
	if e.policy != ours || e.mix != known {
		return
	}
	order := rand.New(rand.NewPCG(uint64(seed), 3)).Perm(len(trace)) //nolint:gosec // a replay repeats
	for _, i := range order {
		p.Learn(cluster, cluster.Request(trace[i].Shape))
	}
}

// scales are the parameters of ours that are not weights: there is no "without".
var scales = []string{"Smoothing", "HalfLife"}

// weights returns the names of the parameters of ours that can be left out.
func weights() []string {
	var names []string
	for field := range reflect.TypeFor[packing.Parameters]().Fields() {
		if field.Type.Kind() == reflect.Float64 && !slices.Contains(scales, field.Name) {
			names = append(names, field.Name)
		}
	}
	return names
}

// parameters returns the default ones without one of them, which may be empty.
func parameters(without string) packing.Parameters {
	p := packing.Default()
	if without != "" {
		reflect.ValueOf(&p).Elem().FieldByName(without).SetFloat(0)
	}
	return p
}
