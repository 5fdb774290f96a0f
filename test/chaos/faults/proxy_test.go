// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"falldio.github.io/gpu-controller/test/chaos/schedule"
)

func TestTimesAreShifted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		by   time.Duration
		want string
	}{
		"a time":                       {`{"at":"2026-01-01T00:00:00Z"}`, time.Minute, `{"at":"2026-01-01T00:01:00Z"}`},
		"backwards, with a fraction":   {`"2026-01-01T00:00:00.123400Z"`, -time.Second, `"2025-12-31T23:59:59.123400Z"`},
		"in JSON within an annotation": {`{"a":"[{\"until\":\"2026-01-01T00:00:00Z\"}]"}`, time.Hour, `{"a":"[{\"until\":\"2026-01-01T01:00:00Z\"}]"}`},
		"what is no time":              {`"2026-99-01T00:00:00Z", "2026-01-01"`, time.Hour, `"2026-99-01T00:00:00Z", "2026-01-01"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(shift([]byte(test.text), test.by)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestAWatchIsShiftedEventByEvent: an event must not wait for the next one.
func TestAWatchIsShiftedEventByEvent(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe()
	shifting := &shiftingReader{Closer: reader, lines: bufio.NewReader(reader), by: time.Minute}
	lines := bufio.NewReader(shifting)
	for _, text := range []string{"2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"} {
		go func() { _, _ = writer.Write([]byte(text + "\n")) }()
		got, err := lines.ReadString('\n')
		if want := strings.Replace(text, "00:00:0", "00:01:0", 1) + "\n"; err != nil || got != want {
			t.Errorf("got %q, error %v, want %q", got, err, want)
		}
	}
}

// apiServer is a server that counts requests and remembers the last body, and a proxy to it.
type apiServer struct {
	*httptest.Server
	requests atomic.Int64
	body     atomic.Value
	accept   atomic.Value
}

func startAPIServer(t *testing.T) (*apiServer, *Proxy) {
	t.Helper()
	a := &apiServer{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.requests.Add(1)
		a.body.Store(string(body))
		a.accept.Store(r.Header.Get("Accept"))
		_, _ = io.WriteString(w, `{"at":"2026-01-01T00:00:00Z"}`)
	}))
	t.Cleanup(a.Close)
	rights := filepath.Join(t.TempDir(), "rights")
	content, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": []any{map[string]any{"name": "x", "context": map[string]any{"cluster": "x"}}},
		"clusters": []any{map[string]any{"name": "x", "cluster": map[string]any{"server": a.URL}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(rights, content, 0o600); err != nil {
		t.Fatal(err)
	}
	proxy, err := StartProxy(t.Context(), rights, filepath.Join(t.TempDir(), "kubeconfig"), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	return a, proxy
}

// send sends a request through a proxy, and returns the response; an error if the connection broke.
func send(t *testing.T, proxy *Proxy, body string) (string, error) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", proxy.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, config.Host+"/x", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/vnd.kubernetes.protobuf,application/json")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func TestAProxyForwards(t *testing.T) {
	t.Parallel()
	server, proxy := startAPIServer(t)
	got, err := send(t, proxy, "hello")
	if err != nil || got != `{"at":"2026-01-01T00:00:00Z"}` || server.body.Load() != "hello" {
		t.Errorf("got %s, error %v; the server has read %v", got, err, server.body.Load())
	}
	if server.accept.Load() != "application/json" {
		t.Errorf("asked for %v, want what times can be found in", server.accept.Load())
	}
}

// TestTheClockOfAProcessIsAhead: what others write looks older than it is, and what the process
// writes seems to come from the future.
func TestTheClockOfAProcessIsAhead(t *testing.T) {
	t.Parallel()
	server, proxy := startAPIServer(t)
	proxy.Skew(time.Minute)
	got, err := send(t, proxy, `{"now":"2026-01-01T00:00:00Z"}`)
	if err != nil || got != `{"at":"2025-12-31T23:59:00Z"}` {
		t.Errorf("the process has read %s, error %v", got, err)
	}
	if server.body.Load() != `{"now":"2026-01-01T00:01:00Z"}` {
		t.Errorf("the server has read %v", server.body.Load())
	}
}

func TestWaysToFail(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		way string
		// arrive is how many requests of one that is disturbed arrive, broken whether its connection breaks.
		arrive int64
		broken bool
		answer string
	}{
		"the connection breaks before the API server has the request": {schedule.WayDrop, 0, true, ""},
		"the connection breaks before the response":                   {schedule.WayLose, 1, true, ""},
		"the API server answers with an error":                        {schedule.WayError, 0, false, "InternalError"},
		"the request arrives twice":                                   {schedule.WayDouble, 2, false, "2026"},
		"the request is late":                                         {schedule.WayDelay, 1, false, "2026"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, proxy := startAPIServer(t)
			proxy.Disturb(test.way)
			for disturbed := 0; disturbed == 0; disturbed = proxy.Counts()[test.way] {
				before := server.requests.Load()
				got, err := send(t, proxy, "x")
				if proxy.Counts()[test.way] == 0 {
					continue // only some requests are disturbed
				}
				if arrived := server.requests.Load() - before; arrived != test.arrive || (err != nil) != test.broken || !strings.Contains(got, test.answer) {
					t.Errorf("%d requests have arrived, got %q, error %v", arrived, got, err)
				}
			}
		})
	}
}
