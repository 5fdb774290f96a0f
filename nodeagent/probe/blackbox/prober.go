// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package blackbox

import (
	"context"
	"net/http"

	"github.com/go-kit/log"
	"github.com/prometheus/blackbox_exporter/config"
	"github.com/prometheus/blackbox_exporter/prober"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/nodeagent/probe"
	"falldio.github.io/gpu-controller/nodeagent/probe/allow"
)

// way is how blackbox_exporter probes, and what a target is to it.
type way struct {
	run  prober.ProbeFn
	kind allow.Kind
	// port is meant when a target has none; nil if it must have one.
	port func(*config.Module) string
}

// probers are the values of a module's field prober.
var probers = map[string]*way{
	"http": {run: prober.ProbeHTTP, kind: allow.URL},
	"tcp":  {run: prober.ProbeTCP, kind: allow.HostPort},
	"icmp": {run: prober.ProbeICMP, kind: allow.Host},
	"dns":  {run: prober.ProbeDNS, kind: allow.HostPort, port: dnsPort},
	"grpc": {run: prober.ProbeGRPC, kind: allow.HostPort},
}

func dnsPort(module *config.Module) string {
	if module.DNS.DNSOverTLS {
		return "853"
	}
	return "53"
}

// Prober probes for the node that it runs on.
type Prober struct {
	node    string
	modules *Modules
	targets *allow.List
}

var _ probe.Prober = (*Prober)(nil)

// New returns the Prober of a node.
func New(node string, modules *Modules, targets *allow.List) *Prober {
	return &Prober{node: node, modules: modules, targets: targets}
}

// Prepare implements probe.Prober.
func (p *Prober) Prepare(question probe.Question) (*probe.Job, error) {
	if question.Node != "" && question.Node != p.node {
		return nil, probe.Refuse(http.StatusNotFound, "node: this is the agent of %s, not of %q", p.node, question.Node)
	}
	module, known := p.modules.byName[question.Module]
	if !known {
		return nil, probe.Refuse(http.StatusBadRequest, "module: %q is none of %s", question.Module, p.modules.Names())
	}
	way := probers[module.Prober]
	port := ""
	if way.port != nil {
		port = way.port(&module)
	}
	target, err := allow.Parse(way.kind, question.Target, port)
	if err != nil {
		return nil, probe.Refuse(http.StatusBadRequest, "%v", err)
	}
	if p.targets.Empty() {
		return nil, probe.Refuse(http.StatusForbidden, "no target is allowed: the file of --probe-targets is empty")
	}
	if !p.targets.Allows(target) {
		return nil, probe.Refuse(http.StatusForbidden, "target %q is not allowed by the file of --probe-targets", target)
	}
	return &probe.Job{
		Timeout: module.Timeout,
		Run: func(ctx context.Context, registry *prometheus.Registry) probe.Result {
			return probe.Result{Reached: way.run(ctx, target.String(), module, registry, logger(ctx, question))}
		},
	}, nil
}

// logger passes on what blackbox_exporter tells of a probe, for those who look
// for a mistake in a module: a target that does not answer is no news else.
func logger(ctx context.Context, question probe.Question) log.Logger {
	verbose := klog.FromContext(ctx).V(4)
	if !verbose.Enabled() {
		return log.NewNopLogger()
	}
	return log.LoggerFunc(func(values ...any) error {
		verbose.Info("Probing", append([]any{"module", question.Module, "target", question.Target}, values...)...)
		return nil
	})
}
