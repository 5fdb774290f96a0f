// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

// parse returns the options of flags, and what is wrong with them.
func parse(t *testing.T, args ...string) (o Options, problems []string) {
	t.Helper()
	flags := pflag.NewFlagSet("program", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	o.Validate(func(holds bool, format string, _ ...any) {
		if !holds {
			problems = append(problems, format)
		}
	})
	return o, problems
}

func newTestServer(t *testing.T, address string, args ...string) *Server {
	t.Helper()
	options, problems := parse(t, args...)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1")) })
	fine := func(*http.Request) error { return nil }
	settings := Settings{Options: options, Flag: "bind-address", Address: address, Kube: &rest.Config{Host: "http://127.0.0.1:1"}}
	server, err := New(settings, metrics, fine, func(*http.Request) error { return errors.New("not yet") })
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func TestFlagsThatContradictEachOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args     []string
		problems int
	}{
		"nothing":                         {nil, 0},
		"a certificate":                   {[]string{"--metrics-secure", "--tls-cert-file=a", "--tls-private-key-file=b"}, 0},
		"a certificate that nobody shows": {[]string{"--tls-cert-file=a", "--tls-private-key-file=b"}, 1},
		"a certificate without its key":   {[]string{"--metrics-secure", "--tls-cert-file=a"}, 1},
	} {
		if _, problems := parse(t, test.args...); len(problems) != test.problems {
			t.Errorf("%s: %q", name, problems)
		}
	}
}

func TestWhoMayReadWhat(t *testing.T) {
	t.Parallel()
	const near, far = "127.0.0.1:1234", "192.0.2.1:1234"
	tests := map[string]struct {
		args       []string
		from, path string
		status     int
	}{
		"metrics, by everybody":                     {nil, far, "/metrics", http.StatusOK},
		"health":                                    {nil, far, "/healthz", http.StatusOK},
		"health that is bad":                        {nil, far, "/readyz", http.StatusServiceUnavailable},
		"profiles, where there are none":            {nil, near, "/debug/pprof/heap", http.StatusNotFound},
		"profiles, on the same machine":             {[]string{"--profiling"}, near, "/debug/pprof/heap", http.StatusOK},
		"the list of profiles, on the same machine": {[]string{"--profiling"}, near, "/debug/pprof/", http.StatusOK},
		"profiles, from elsewhere":                  {[]string{"--profiling"}, far, "/debug/pprof/heap", http.StatusForbidden},
		"metrics, without a token":                  {[]string{"--metrics-secure"}, near, "/metrics", http.StatusUnauthorized},
		"profiles, without a token":                 {[]string{"--metrics-secure", "--profiling"}, near, "/debug/pprof/heap", http.StatusUnauthorized},
		"health, without a token":                   {[]string{"--metrics-secure"}, far, "/healthz", http.StatusOK},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, http.NoBody)
			request.RemoteAddr = test.from
			answer := httptest.NewRecorder()
			newTestServer(t, "", test.args...).ServeHTTP(answer, request)
			if answer.Code != test.status {
				t.Errorf("status %d, want %d: %s", answer.Code, test.status, answer.Body)
			}
		})
	}
}

// serve runs a server until stop is called, which returns its error, and returns its address.
func serve(t *testing.T, prepare func(*Server), args ...string) (address string, stop func() error) {
	t.Helper()
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	server := newTestServer(t, address, args...)
	prepare(server)
	go func() { done <- server.Serve(ctx) }()
	stop = func() error {
		cancel()
		return <-done
	}
	t.Cleanup(cancel)
	return address, stop
}

// get asks a server until it answers.
func get(t *testing.T, url string) *http.Response {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err == nil {
			return answer
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatal(err)
		}
	}
}

func TestServing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args   []string
		scheme string
	}{
		"without TLS": {nil, "http://"},
		"with TLS":    {[]string{"--metrics-secure"}, "https://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, stop := serve(t, func(*Server) {}, test.args...)
			answer := get(t, test.scheme+address+"/healthz")
			body, err := io.ReadAll(answer.Body)
			if err := errors.Join(err, answer.Body.Close()); err != nil || !strings.Contains(string(body), "ok") {
				t.Errorf("%q, error %v", body, err)
			}
			if err := stop(); err != nil {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func TestALongRequestDoesNotKeepAProgramFromEnding(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	address, stop := serve(t, func(server *Server) {
		server.Handle("GET /long", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
		}))
	})
	failed := make(chan error, 1)
	_ = get(t, "http://"+address+"/healthz").Body.Close() // it listens
	go func() {
		answer, err := http.Get("http://" + address + "/long")
		if err == nil {
			err = answer.Body.Close()
		}
		failed <- err
	}()
	<-began
	if err := stop(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
}
