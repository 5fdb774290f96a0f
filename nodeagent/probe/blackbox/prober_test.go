// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/probe"
	"falldio.github.io/gpu-controller/nodeagent/probe/allow"
	"falldio.github.io/gpu-controller/nodeagent/probe/blackbox"
)

const modules = `
modules:
  http_2xx: {prober: http, timeout: 5s}
  http_moved: {prober: http, timeout: 5s, http: {valid_status_codes: [302], follow_redirects: true}}
  http_impatient: {prober: http, timeout: 50ms}
  http_hello: {prober: http, http: {fail_if_body_not_matches_regexp: [hello]}}
  tcp_connect: {prober: tcp, timeout: 5s}
`

// site is a web site on this machine, with one that must not be reached.
type site struct {
	*httptest.Server
	elsewhere *httptest.Server
	leaks     atomic.Int32
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	s.elsewhere = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.leaks.Add(1) }))
	t.Cleanup(s.elsewhere.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, s.elsewhere.URL, http.StatusFound) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/huge", func(w http.ResponseWriter, _ *http.Request) {
		for range 64 {
			fmt.Fprint(w, strings.Repeat("hello", 64<<10))
		}
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// handler is an agent's /probe that may reach the site.
func (s *site) handler(t *testing.T, allowed ...string) http.Handler {
	t.Helper()
	ways, err := blackbox.ParseModules([]byte(modules))
	if err != nil {
		t.Fatal(err)
	}
	list, err := allow.ParseList([]byte(strings.Join(append([]string{"[]"}, allowed...)[min(1, len(allowed)):], "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return probe.New(probe.Config{Prober: blackbox.New("n1", ways, list), Clock: clock.RealClock{}, Limit: 8, Timeout: 10 * time.Second})
}

func (s *site) address() string { return s.Listener.Addr().String() }

// ask returns the status and the text of the answer.
func ask(t *testing.T, handler http.Handler, parameters ...string) (int, string) {
	t.Helper()
	values := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		values.Set(parameters[i], parameters[i+1])
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/probe?"+values.Encode(), nil))
	return recorder.Code, recorder.Body.String()
}

func TestProbe(t *testing.T) {
	t.Parallel()
	site := newSite(t)
	handler := site.handler(t, fmt.Sprintf("- %q", site.address()))
	tests := map[string]struct {
		parameters []string
		want       []string
	}{
		"a web site that answers":             {[]string{"target", site.URL}, []string{"\nprobe_success 1\n", `probe_http_duration_seconds{phase="connect"} `, "probe_duration_seconds 0.", "probe_http_status_code 200"}},
		"a web site without a scheme":         {[]string{"target", site.address(), "module", "http_2xx"}, []string{"probe_success 1"}},
		"the agent of the node that is meant": {[]string{"target", site.URL, "node", "n1"}, []string{"probe_success 1"}},
		"a web site with an error":            {[]string{"target", site.URL + "/broken"}, []string{"probe_success 0", "probe_http_status_code 500"}},
		"a page that has to say something":    {[]string{"target", site.URL, "module", "http_hello"}, []string{"probe_success 1"}},
		"a page that never ends":              {[]string{"target", site.URL + "/huge"}, []string{"probe_success 0", "probe_http_status_code 200"}},
		"a redirect fails":                    {[]string{"target", site.URL + "/moved"}, []string{"probe_success 0", "probe_http_status_code 302"}},
		"a redirect that is expected":         {[]string{"target", site.URL + "/moved", "module", "http_moved"}, []string{"probe_success 1", "probe_http_redirects 1"}},
		"a site that takes too long":          {[]string{"target", site.URL + "/slow", "module", "http_impatient"}, []string{"probe_success 0"}},
		"a port that is open":                 {[]string{"target", site.address(), "module", "tcp_connect"}, []string{"probe_success 1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, answer := ask(t, handler, test.parameters...)
			for _, want := range test.want {
				if status != http.StatusOK || !strings.Contains(answer, want) {
					t.Errorf("status %d, want %q in: %s", status, want, answer)
				}
			}
		})
	}
	t.Cleanup(func() { // after the subtests
		if leaks := site.leaks.Load(); leaks > 0 {
			t.Errorf("%d redirects were followed", leaks)
		}
	})
}

func TestProbeRefuses(t *testing.T) {
	t.Parallel()
	site := newSite(t)
	only := site.handler(t, fmt.Sprintf("- %q", site.address()))
	tests := map[string]struct {
		handler    http.Handler
		parameters []string
		status     int
		want       string
	}{
		"no target":                 {only, nil, http.StatusBadRequest, "the parameter target is missing"},
		"an unknown module":         {only, []string{"target", site.URL, "module", "ftp"}, http.StatusBadRequest, `module: "ftp" is not one of http_2xx, http_hello, http_impatient, http_moved, tcp_connect`},
		"another host name":         {only, []string{"target", site.URL, "hostname", "intern"}, http.StatusBadRequest, "the parameter hostname of blackbox_exporter is not supported"},
		"another node":              {only, []string{"target", site.URL, "node", "n2"}, http.StatusNotFound, `node: this is the agent of n1, not of "n2"`},
		"a target that is no URL":   {only, []string{"target", "http://a b"}, http.StatusBadRequest, "is no URL"},
		"another host":              {only, []string{"target", site.elsewhere.URL}, http.StatusForbidden, "is not allowed by the file of --probe-targets"},
		"another port":              {only, []string{"target", "127.0.0.1:22", "module", "tcp_connect"}, http.StatusForbidden, "is not allowed"},
		"an agent that allows none": {site.handler(t), []string{"target", site.URL}, http.StatusForbidden, "no target is allowed: the file of --probe-targets is empty"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, answer := ask(t, test.handler, test.parameters...)
			if status != test.status || !strings.Contains(answer, test.want) {
				t.Errorf("status %d, want %d and %q in: %s", status, test.status, test.want, answer)
			}
		})
	}
}

func TestAClosedPortFails(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	status, answer := ask(t, newSite(t).handler(t, fmt.Sprintf("- %q", address)), "target", address, "module", "tcp_connect")
	if status != http.StatusOK || !strings.Contains(answer, "probe_success 0") {
		t.Errorf("status %d: %s", status, answer)
	}
}
