// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/proxy"
)

// TestAPIErrorsLoseAndDoubleNothing puts a proxy between the controller and the API
// server. It fails a good part of all writes with an error, and, which is worse, lets
// others through and then reports that they failed.
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

// newFaultyProxy starts a proxy before the API server, with the rights of the kubeconfig.
func newFaultyProxy(t *testing.T, kubeconfig string) *faultyProxy {
	t.Helper()
	p := &faultyProxy{random: rand.New(rand.NewPCG(3, 4))}
	p.kubeconfig = proxy.Start(t, kubeconfig, func(next http.Handler) http.Handler {
		p.next = next
		return p
	})
	return p
}

// ServeHTTP forwards reads and makes a third of the writes fail.
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
	case 2: // the write happens, the response is lost
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
	proxy.Fail(w, code, reason)
}
