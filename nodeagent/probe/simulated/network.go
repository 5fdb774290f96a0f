// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/probe"
	"falldio.github.io/gpu-controller/nodeagent/probe/allow"
	"falldio.github.io/gpu-controller/pkg/configfile"
)

// Modules are the ways to probe. The simulation does not distinguish them, but refuses unknown
// ones like a real agent.
type Modules interface {
	Has(name string) bool
	Names() string
}

// Network simulates probes from simulated nodes. It reaches nothing, so every target is
// allowed.
type Network struct {
	nodes   sets.Set[string]
	modules Modules
	clock   clock.Clock
	rules   atomic.Pointer[Rules]
}

var _ probe.Prober = (*Network)(nil)

// New returns the network of some nodes, without rules.
func New(nodes []string, modules Modules, c clock.Clock) *Network {
	n := &Network{nodes: sets.New(nodes...), modules: modules, clock: c}
	n.SetRules(nil)
	return n
}

// SetRules replaces the rules.
func (n *Network) SetRules(rules Rules) { n.rules.Store(&rules) }

// File returns a YAML file with the rules, which it replaces.
func (n *Network) File(path string) *configfile.Watched[Rules] {
	return &configfile.Watched[Rules]{What: "the simulated network", Path: path, Parse: ParseRules, Apply: func(_, rules Rules) error {
		n.SetRules(rules)
		return nil
	}}
}

// shown is how many names an error lists.
const shown = 10

// Prepare implements probe.Prober.
func (n *Network) Prepare(question probe.Question) (*probe.Job, error) {
	if !n.nodes.Has(question.Node) {
		names, more := sets.List(n.nodes), ""
		if len(names) > shown {
			names, more = slices.Clone(names[:shown]), ", …"
		}
		return nil, probe.Refuse(http.StatusNotFound, "node: %q is not one of %s%s", question.Node, strings.Join(names, ", "), more)
	}
	if !n.modules.Has(question.Module) {
		return nil, probe.Refuse(http.StatusBadRequest, "module: %q is not one of %s", question.Module, n.modules.Names())
	}
	if len(question.Target) > allow.MaxTargetBytes {
		return nil, probe.Refuse(http.StatusBadRequest, "the target is longer than %d bytes", allow.MaxTargetBytes)
	}
	return &probe.Job{Run: func(ctx context.Context, _ *prometheus.Registry) probe.Result {
		return n.wait(ctx, question)
	}}, nil
}

// wait takes as long as the simulated probe, so that clients may time out.
func (n *Network) wait(ctx context.Context, question probe.Question) probe.Result {
	duration, reached := n.rules.Load().measure(question.Node, question.Target)
	select {
	case <-ctx.Done():
		return probe.Result{}
	case <-n.clock.After(duration):
		return probe.Result{Reached: reached, Duration: duration}
	}
}
