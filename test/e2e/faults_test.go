// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestAPIErrorsLoseAndDoubleNothing puts a proxy between the controller and
// the API server. It refuses a good part of all writes with an error, and, which
// is worse, lets others through and then says that they failed.
func TestAPIErrorsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	const tasks = 40
	s := newSuite(t)
	census := s.takeCensus()
	proxy := newFaultyProxy(t, s.cluster.controllerKubeconfig())
	s.startController("--kubeconfig=" + proxy.kubeconfig)
	for i := range tasks {
		s.create(crashTask(i))
	}
	for i := range tasks {
		name := crashTask(i).Name
		task := s.waitForPhase(name, v1.PhaseSucceeded)
		if want := crashRestarts(i); int(task.Status.Restarts) != want {
			t.Errorf("task %s was restarted %d times, want %d", name, task.Status.Restarts, want)
		}
	}
	if doubles := census.doubles(); len(doubles) > 0 {
		t.Errorf("Pods were created more than once: %v", doubles)
	}
	t.Logf("%d of %d writes failed", proxy.faults.Load(), proxy.writes.Load())
	if proxy.faults.Load() < 20 {
		t.Errorf("only %d faults were injected: this proves nothing", proxy.faults.Load())
	}
}

// faultyProxy is an API server that fails at random.
type faultyProxy struct {
	kubeconfig string
	next       http.Handler
	mu         sync.Mutex
	random     *rand.Rand
	writes     atomic.Int64
	faults     atomic.Int64
}

// newFaultyProxy listens on the loopback interface and speaks to the API server
// with the rights of the given kubeconfig.
func newFaultyProxy(t *testing.T, kubeconfig string) *faultyProxy {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	reverse := httputil.NewSingleHostReverseProxy(target)
	if reverse.Transport, err = rest.TransportFor(config); err != nil {
		t.Fatal(err)
	}
	reverse.FlushInterval = -1 // watches
	p := &faultyProxy{next: reverse, random: rand.New(rand.NewPCG(3, 4))}
	server := httptest.NewServer(p)
	t.Cleanup(server.CloseClientConnections)

	p.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "x",
		"contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
		"users": [{"name": "x", "user": {}}], "clusters": [{"name": "x", "cluster": {"server": %q}}]}`, server.URL)
	if err := os.WriteFile(p.kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// ServeHTTP passes reads on and lets a third of the writes fail.
func (p *faultyProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		p.next.ServeHTTP(w, r)
		return
	}
	p.writes.Add(1)
	switch p.dice(9) {
	case 0:
		p.fail(w, http.StatusInternalServerError, "InternalError")
	case 1:
		p.fail(w, http.StatusConflict, "Conflict")
	case 2: // the write happens, the answer is lost
		p.next.ServeHTTP(httptest.NewRecorder(), r)
		p.fail(w, http.StatusGatewayTimeout, "Timeout")
	default:
		p.next.ServeHTTP(w, r)
	}
}

func (p *faultyProxy) dice(sides int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.IntN(sides)
}

func (p *faultyProxy) fail(w http.ResponseWriter, code int, reason string) {
	p.faults.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "message": "injected"}`, reason, code)
}
