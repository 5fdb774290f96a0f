// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/probe/blackbox"
)

func TestFlagsOfProbingThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	nodes := "--simulated-nodes=" + file(t, "[{name: n1}]")
	for _, test := range []struct{ args, want string }{
		{"--probe-targets=/nowhere", "--probe-targets: reading the allowed targets: open /nowhere"},
		{"--probe-targets=" + file(t, `["*"]`), `target 1, "*": a star`},
		{"--probe-modules=" + file(t, "modules: {}"), "--probe-modules: nothing may be probed; add --probe-targets"},
		{"--probe-targets=" + file(t, "[]") + " --probe-modules=/nowhere", "--probe-modules: reading the modules: open /nowhere"},
		{"--probe-limit=0", "--probe-limit=0: must be greater than 0"},
		{"--probe-timeout=0s", "--probe-timeout=0s: must be greater than 0"},
		{"--probe-url=localhost:9836/probe", "--probe-url=localhost:9836/probe: must be a URL with http or https"},
		{"--probe-url=file:///{node}", "must be a URL with http or https"},
		{"--simulation-network=/x", "--simulation-network: only for the nodes of --simulated-nodes"},
		{nodes + " --probe-targets=" + file(t, "[]"), "--probe-targets: simulated nodes reach no real targets"},
	} {
		if _, err := parse(t, nil, append([]string{"--node-name=n1"}, split(test.args)...)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q in it", test.args, err, test.want)
		}
	}
}

func TestProbing(t *testing.T) {
	t.Parallel()
	target := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(target.Close)
	address := target.Listener.Addr().String()
	fleet := "--simulated-nodes=" + file(t, "[{name: n1}, {name: n2}]")
	tests := map[string]struct {
		args, query string
		status      int
		want        string
	}{
		"without flags it is off":            {"--node-name=n1", "target=" + address, http.StatusForbidden, "this agent probes nothing: it was started without --probe-targets"},
		"with targets it is on":              {"--node-name=n1 --probe-targets=" + file(t, `["`+address+`"]`), "module=tcp_connect&target=" + address, http.StatusOK, "probe_success 1"},
		"with targets it refuses others":     {"--node-name=n1 --probe-targets=" + file(t, `["`+address+`"]`), "module=tcp_connect&target=127.0.0.1:1", http.StatusForbidden, "is not allowed"},
		"with modules it has no others":      {"--node-name=n1 --probe-targets=" + file(t, "[]") + " --probe-modules=" + file(t, "modules: {ping: {prober: icmp}}"), "target=x", http.StatusBadRequest, `module: "http_2xx" is not one of ping`},
		"simulated GPUs have a real network": {"--node-name=n1 --source=simulated", "target=" + address, http.StatusForbidden, "this agent probes nothing"},
		"simulated nodes have no network":    {fleet, "node=n2&target=https://x", http.StatusOK, "probe_success 1"},
		"simulated nodes are distinguished":  {fleet, "node=n3&target=https://x", http.StatusNotFound, `node: "n3" is not one of n1, n2`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, err := parse(t, nil, split(test.args)...)
			if err != nil {
				t.Fatal(err)
			}
			p := &process{opts: opts, clock: clock.RealClock{}}
			for i := range opts.Fleet {
				p.agents = append(p.agents, &agent{node: opts.Fleet[i].Name})
			}
			recorder := httptest.NewRecorder()
			p.probing().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/probe?"+test.query, nil))
			if recorder.Code != test.status || !strings.Contains(recorder.Body.String(), test.want) {
				t.Errorf("status %d, want %d and %q in: %s", recorder.Code, test.status, test.want, recorder.Body)
			}
		})
	}
}

func TestTheShippedFilesAreRead(t *testing.T) {
	t.Parallel()
	const folder = "../artifacts/nodeagent/probe/"
	opts, err := parse(t, nil, "--node-name=n1", "--probe-targets="+folder+"targets.yaml", "--probe-modules="+folder+"modules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !opts.probing.targets.Empty() {
		t.Error("we ship agents that may be used to scan networks")
	}
	defaults, err := blackbox.DefaultModules()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := opts.probing.modules.Names(), defaults.Names(); got != want {
		t.Errorf("the modules are %s, by default %s", got, want)
	}
}

func TestProbeURLHasTheNodesName(t *testing.T) {
	t.Parallel()
	options := probingOptions{url: "http://127.0.0.1:9836/probe?node={node}"}
	if got, want := options.urlFor("n1"), "http://127.0.0.1:9836/probe?node=n1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
