// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"falldio.github.io/gpu-controller/test/proxy"
)

// bindings is a proxy between a scheduler and the API server that holds Bindings back:
// they are forwarded when the test says so, whatever has happened to the scheduler.
type bindings struct {
	*suite
	kubeconfig string
	next       http.Handler

	mu sync.Mutex
	// treat returns what to do with a Pod's Binding.
	treat func(pod string) treatment
	held  []*heldBinding
	seen  map[string]int
}

// treatment is what the proxy does with a Binding.
type treatment int

const (
	// forward forwards it at once.
	forward treatment = iota
	// hold holds it back, and the scheduler waits for the response.
	hold
	// timeOut holds it back, and responds with a timeout.
	timeOut
	// loseAnswer forwards it at once, and responds with a timeout.
	loseAnswer
	// duplicate forwards it at once, and holds a second copy back.
	duplicate
)

// heldBinding is a Binding that the API server has not received yet.
type heldBinding struct {
	pod     string
	request *http.Request
	answer  chan *httptest.ResponseRecorder
}

// keepBindings starts a proxy with the rights of gpu-scheduler.
func (s *suite) keepBindings(treat func(pod string) treatment) *bindings {
	s.Helper()
	b := &bindings{suite: s, treat: treat, seen: map[string]int{}}
	b.kubeconfig = proxy.Start(s.T, s.schedulerKubeconfig(), func(next http.Handler) http.Handler {
		b.next = next
		return b
	})
	s.Cleanup(func() { b.release() }) // so that no request waits forever
	return b
}

// ServeHTTP implements http.Handler.
func (b *bindings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(r.URL.Path, "/")
	if r.Method != http.MethodPost || path[len(path)-1] != "binding" {
		b.next.ServeHTTP(w, r)
		return
	}
	pod := path[len(path)-2]
	switch b.treatmentOf(pod) {
	case hold:
		answer := <-b.keep(pod, r).answer
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // the scheduler may be dead
	case timeOut:
		b.keep(pod, r)
		proxy.Fail(w, http.StatusGatewayTimeout, "Timeout")
	case loseAnswer:
		b.next.ServeHTTP(httptest.NewRecorder(), r)
		proxy.Fail(w, http.StatusGatewayTimeout, "Timeout")
	case duplicate:
		b.next.ServeHTTP(w, b.keep(pod, r).request)
	default:
		b.next.ServeHTTP(w, r)
	}
}

func (b *bindings) treatmentOf(pod string) treatment {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[pod]++
	return b.treat(pod)
}

// keep stores a Binding so that it outlives its connection. The request can still be read.
func (b *bindings) keep(pod string, r *http.Request) *heldBinding {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		b.Errorf("reading the Binding of %s: %v", pod, err)
	}
	copied := r.Clone(context.WithoutCancel(r.Context()))
	copied.Body = io.NopCloser(bytes.NewReader(body))
	r.Body = io.NopCloser(bytes.NewReader(body))
	held := &heldBinding{pod: pod, request: copied, answer: make(chan *httptest.ResponseRecorder, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = append(b.held, held)
	return held
}

// waitFor waits until the Binding of a Pod has arrived.
func (b *bindings) waitFor(pod string) {
	b.Helper()
	b.eventually("a Binding of "+pod+" comes", func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.seen[pod] > 0, fmt.Sprint(b.seen)
	})
}

// carryOutLater forwards the stored Bindings after random delays, one by one, until the test
// ends.
func (b *bindings) carryOutLater(after func() time.Duration) {
	ctx, cancel := context.WithCancel(b.Context())
	var busy sync.WaitGroup
	b.Cleanup(func() { cancel(); busy.Wait() })
	busy.Go(func() {
		for pause(ctx, pollEvery) {
			b.mu.Lock()
			held := b.held
			b.held = nil
			b.mu.Unlock()
			for _, one := range held {
				busy.Go(func() {
					pause(ctx, after())
					b.carryOut(one)
				})
			}
		}
	})
}

// carryOut forwards a stored Binding, and reports whether the API server has accepted it.
func (b *bindings) carryOut(held *heldBinding) (accepted bool) {
	answer := httptest.NewRecorder()
	b.next.ServeHTTP(answer, held.request)
	held.answer <- answer
	return answer.Code == http.StatusCreated
}

// release forwards all stored Bindings, the last one first, and returns how many of them
// the API server has accepted.
func (b *bindings) release() (accepted int) {
	b.mu.Lock()
	held := b.held
	b.held = nil
	b.treat = func(string) treatment { return forward }
	b.mu.Unlock()
	for _, one := range slices.Backward(held) {
		if b.carryOut(one) {
			accepted++
		}
	}
	return accepted
}
