// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/nodeagent/probe"
	"falldio.github.io/gpu-controller/nodeagent/probe/allow"
	"falldio.github.io/gpu-controller/nodeagent/probe/blackbox"
	"falldio.github.io/gpu-controller/nodeagent/probe/simulated"
)

// probingOptions are the flags of /probe.
type probingOptions struct {
	targetsFile string
	modulesFile string
	networkFile string
	limit       int
	timeout     time.Duration
	url         string

	// Derived from the above by complete.
	targets *allow.List // nil if /probe is off
	modules *blackbox.Modules
}

func (o *probingOptions) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.targetsFile, "probe-targets", o.targetsFile,
		"YAML file with the targets that /probe may reach; without it /probe is off, except for simulated nodes")
	flags.StringVar(&o.modulesFile, "probe-modules", o.modulesFile,
		"YAML file with the modules of /probe, as blackbox_exporter has them; by default http_2xx, tcp_connect and icmp")
	flags.IntVar(&o.limit, "probe-limit", o.limit, "how many probes may run at once, for each node")
	flags.DurationVar(&o.timeout, "probe-timeout", o.timeout, "maximum duration of a probe")
	flags.StringVar(&o.url, "probe-url", o.url,
		"URL of this agent's /probe, written to the Node as annotation for the scheduler, {node} stands for the node's name; without it the scheduler uses the Node's internal address")
	flags.StringVar(&o.networkFile, "simulation-network", o.networkFile,
		"YAML file that says how fast simulated nodes reach targets, read again when it changes")
}

// complete validates the options and derives the others from them. simulatedNodes is true if
// the process is the agent of many nodes.
func (o *probingOptions) complete(simulatedNodes bool) error {
	switch {
	case o.modulesFile != "" && o.targetsFile == "" && !simulatedNodes:
		return errors.New("--probe-modules: nothing may be probed; add --probe-targets")
	case o.targetsFile != "" && simulatedNodes:
		return errors.New("--probe-targets: simulated nodes reach no real targets; see --simulation-network")
	case o.networkFile != "" && !simulatedNodes:
		return errors.New("--simulation-network: only for the nodes of --simulated-nodes")
	case o.limit <= 0:
		return fmt.Errorf("--probe-limit=%d: must be greater than 0", o.limit)
	case o.timeout <= 0:
		return fmt.Errorf("--probe-timeout=%v: must be greater than 0", o.timeout)
	}
	var problems []error
	var err error
	if o.targetsFile != "" {
		if o.targets, err = allow.Load(o.targetsFile); err != nil {
			problems = append(problems, fmt.Errorf("--probe-targets: %w", err))
		}
	}
	if o.modulesFile == "" {
		o.modules, err = blackbox.DefaultModules()
	} else {
		o.modules, err = blackbox.LoadModules(o.modulesFile)
	}
	if err != nil {
		problems = append(problems, fmt.Errorf("--probe-modules: %w", err))
	}
	if err := checkProbeURL(o.urlFor("node")); err != nil {
		problems = append(problems, fmt.Errorf("--probe-url=%s: %w", o.url, err))
	}
	return errors.Join(problems...)
}

func checkProbeURL(text string) error {
	if text == "" {
		return nil
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return errors.New("must be a URL with http or https")
	}
	return nil
}

// urlFor returns the value of a Node's annotation; empty for none.
func (o *probingOptions) urlFor(node string) string {
	return strings.ReplaceAll(o.url, "{node}", node)
}

// probing returns the handler of /probe.
func (p *process) probing() *probe.Handler {
	options := &p.opts.probing
	config := probe.Config{Clock: p.clock, Limit: options.limit, Timeout: options.timeout}
	switch {
	case len(p.opts.Fleet) > 0:
		p.network = simulated.New(p.nodes(), options.modules, p.clock)
		config.Prober = p.network
		config.Limit *= len(p.agents)
	case options.targets == nil:
		config.Prober = probe.Off{Reason: "this agent probes nothing: it was started without --probe-targets"}
	default:
		config.Prober = blackbox.New(p.opts.nodeName, options.modules, options.targets)
	}
	return probe.New(config)
}

func (p *process) nodes() []string {
	names := make([]string, 0, len(p.agents))
	for _, agent := range p.agents {
		names = append(names, agent.node)
	}
	return names
}
