// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/probe"
	"falldio.github.io/gpu-controller/nodeagent/probe/blackbox"
)

// newNetwork is the network of some nodes, and the /probe of their agents.
func newNetwork(t *testing.T, nodes ...string) (*Network, http.Handler) {
	t.Helper()
	modules, err := blackbox.DefaultModules()
	if err != nil {
		t.Fatal(err)
	}
	network := New(nodes, modules, clock.RealClock{})
	return network, probe.New(probe.Config{Prober: network, Clock: clock.RealClock{}, Limit: 100, Timeout: 20 * time.Millisecond})
}

func ask(t *testing.T, handler http.Handler, query string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/probe?"+query, nil))
	return recorder.Code, recorder.Body.String()
}

func TestNetworkAnswersForEachNode(t *testing.T) {
	t.Parallel()
	network, handler := newNetwork(t, "n1", "n2", "n3")
	network.SetRules(Rules{{Node: "n2", Fails: true}, {Node: "n3", Duration: &metav1.Duration{Duration: time.Hour}}})
	tests := map[string]struct {
		query  string
		status int
		want   string
	}{
		"a node as usual":          {"node=n1&target=https://x", http.StatusOK, "probe_success 1"},
		"its duration":             {"node=n1&target=https://x", http.StatusOK, "probe_duration_seconds 0.00"},
		"a node that fails":        {"node=n2&target=https://x", http.StatusOK, "probe_success 0"},
		"a node that takes long":   {"node=n3&target=https://x", http.StatusOK, "probe_success 0"},
		"no node":                  {"target=https://x", http.StatusNotFound, `node: "" is not one of n1, n2, n3`},
		"an unknown node":          {"node=n4&target=https://x", http.StatusNotFound, `node: "n4" is not one of n1, n2, n3`},
		"a module that is unknown": {"node=n1&target=https://x&module=ftp", http.StatusBadRequest, `module: "ftp" is not one of http_2xx, icmp, tcp_connect`},
		"a target without end":     {"node=n1&target=" + strings.Repeat("x", 4000), http.StatusBadRequest, "the target is longer"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, answer := ask(t, handler, test.query)
			if status != test.status || !strings.Contains(answer, test.want) {
				t.Errorf("status %d, want %d and %q in: %s", status, test.status, test.want, answer)
			}
		})
	}
}

func TestManyNodesAreNotListed(t *testing.T) {
	t.Parallel()
	var nodes []string
	for i := range 100 {
		nodes = append(nodes, fmt.Sprintf("n%02d", i))
	}
	_, handler := newNetwork(t, nodes...)
	if _, answer := ask(t, handler, "node=x&target=y"); !strings.HasSuffix(answer, "n08, n09, …\n") {
		t.Errorf("got %s", answer)
	}
}

func TestFileMayChange(t *testing.T) {
	t.Parallel()
	network, _ := newNetwork(t, "n1")
	path := filepath.Join(t.TempDir(), "network.yaml")
	file := network.File(path)
	for _, step := range []struct {
		name, content, want string // the content "-" is no file
		duration            time.Duration
	}{
		{"there is no file yet", "-", "", time.Millisecond},
		{"a file", "[{duration: 1s}]", "", time.Second},
		{"a mistake changes nothing", "[{duration: 2}]", path + ": ", time.Second},
		{"the error is reported once", "[{duration: 2}]", "", time.Second},
		{"another file", "[{duration: 3s}]", "", 3 * time.Second},
		{"the file is gone", "-", "", time.Millisecond},
	} {
		if step.content != "-" {
			if err := os.WriteFile(path, []byte(step.content), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		err := file.Check()
		if (err != nil) != (step.want != "") || err != nil && !strings.Contains(err.Error(), step.want) {
			t.Errorf("%s: got error %v, want %q in it", step.name, err, step.want)
		}
		if got, _ := network.rules.Load().measure("n1", "x"); got.Round(step.duration) != step.duration {
			t.Errorf("%s: takes %v, want about %v", step.name, got, step.duration)
		}
	}
}
