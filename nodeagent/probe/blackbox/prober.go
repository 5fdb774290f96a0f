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

// protocol is a prober of blackbox_exporter, with the form of its targets.
type protocol struct {
	run  prober.ProbeFn
	kind allow.Kind
	// port returns the default port; nil if there is none.
	port func(*config.Module) string
}

// probers are the protocols by the value of a module's field prober.
var probers = map[string]*protocol{
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

// Prober probes from the node that it runs on.
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
		return nil, probe.Refuse(http.StatusBadRequest, "module: %q is not one of %s", question.Module, p.modules.Names())
	}
	protocol := probers[module.Prober]
	port := ""
	if protocol.port != nil {
		port = protocol.port(&module)
	}
	target, err := allow.Parse(protocol.kind, question.Target, port)
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
			return probe.Result{Reached: protocol.run(ctx, target.String(), module, registry, logger(ctx, question))}
		},
	}, nil
}

// logger returns a logger for blackbox_exporter. Its messages help to debug a module, and are
// otherwise too frequent: a target that does not answer is not worth logging.
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
