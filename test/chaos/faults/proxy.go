// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/schedule"
	"falldio.github.io/gpu-controller/test/proxy"
)

// Proxy stands between one of our processes and the API server, and does to its requests what it is
// told. It may be started before the API server.
//
// A clock that is wrong shows in a process only in comparison with the times of others, and these it
// sees in what the API server sends. So the proxy makes the clock of its process wrong by X: it takes X
// from all times that the process reads, and adds X to all that it writes.
type Proxy struct {
	// Kubeconfig is the file that leads the process to the proxy.
	Kubeconfig string
	// rights is the kubeconfig with the rights of the process.
	rights string
	server *proxy.Server

	mu      sync.Mutex
	random  *rand.Rand
	forward *httputil.ReverseProxy
	way     string
	skew    time.Duration
	counts  map[string]int
}

// one in so many requests fails while responses are to fail.
const oneIn = 3

// StartProxy starts a proxy that has the rights of a kubeconfig, which need not exist yet, and writes
// a kubeconfig for it.
func StartProxy(ctx context.Context, rights, kubeconfig string, seed uint64) (*Proxy, error) {
	p := &Proxy{Kubeconfig: kubeconfig, rights: rights, random: rand.New(rand.NewPCG(seed, 3)), counts: map[string]int{}} //nolint:gosec // no secret
	server, err := proxy.Listen(ctx, p)
	if err != nil {
		return nil, err
	}
	p.server = server
	return p, server.WriteKubeconfig(kubeconfig)
}

// Close stops the proxy.
func (p *Proxy) Close() error { return p.server.Close() }

// Disturb makes requests fail in a way of package schedule; "" ends it.
func (p *Proxy) Disturb(way string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.way = way
}

// Skew makes the clock of the process wrong: it is ahead by that much. What the process has cached
// keeps its times, so it has to be restarted.
func (p *Proxy) Skew(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skew = by
}

// Counts returns how many requests were disturbed in each way.
func (p *Proxy) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// decide returns how a request fails, and how long it is delayed.
func (p *Proxy) decide() (way string, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.way == "" || p.random.IntN(oneIn) > 0 {
		return "", 0
	}
	p.counts[p.way]++
	return p.way, time.Duration(50+p.random.IntN(2000)) * time.Millisecond
}

// ServeHTTP forwards a request, or does something else to it. Watches are only delayed, dropped and
// refused.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	next, err := p.next()
	if err != nil {
		proxy.Fail(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return
	}
	way, delay := p.decide()
	isWatch := r.URL.Query().Get("watch") == "true"
	switch {
	case way == schedule.WayDrop, way == schedule.WayLose && isWatch:
		breakConnection()
	case way == schedule.WayError:
		proxy.Fail(w, http.StatusInternalServerError, "InternalError")
	case way == schedule.WayLose:
		next.ServeHTTP(newAnswer(), r)
		breakConnection()
	case way == schedule.WayDouble && !isWatch:
		p.double(w, r, next)
	case way == schedule.WayDelay:
		p.delay(w, r, next, delay, isWatch)
	default:
		next.ServeHTTP(w, r)
	}
}

// delay holds a request back for half of the time, and its response for the other half.
func (p *Proxy) delay(w http.ResponseWriter, r *http.Request, next http.Handler, by time.Duration, isWatch bool) {
	pause(r.Context(), by/2)
	if isWatch {
		next.ServeHTTP(w, r)
		return
	}
	held := newAnswer()
	next.ServeHTTP(held, r)
	pause(r.Context(), by/2)
	held.sendTo(w)
}

// double sends a request twice, and answers with the second response.
func (p *Proxy) double(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		breakConnection()
	}
	for _, to := range []http.ResponseWriter{newAnswer(), w} {
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(to, again)
	}
}

// next returns the handler that forwards to the API server. Until the cluster has credentials there is
// none.
func (p *Proxy) next() (http.Handler, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.forward != nil {
		return p.forward, nil
	}
	if _, err := os.Stat(p.rights); err != nil {
		return nil, err
	}
	forward, err := proxy.Forward(p.rights)
	if err != nil {
		return nil, err
	}
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
		proxy.Fail(w, http.StatusServiceUnavailable, "ServiceUnavailable") // the API server is down
	}
	forward.ErrorLog = log.New(io.Discard, "", 0)
	direct := forward.Director                 //nolint:staticcheck // that of NewSingleHostReverseProxy, which is extended
	forward.Director = func(r *http.Request) { //nolint:staticcheck // see above
		direct(r)
		p.ask(r)
	}
	forward.ModifyResponse = p.answer
	p.forward = forward
	return p.forward, nil
}

// ask prepares a request: its times are shifted, and the response is to be in JSON, in which times can
// be found.
func (p *Proxy) ask(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Always, so that a process does not get used to another format before its clock is skewed.
	r.Header.Set("Accept", jsonOnly(r.Header.Get("Accept")))
	r.Header.Del("Accept-Encoding")
	if p.skew == 0 || r.Body == nil || strings.Contains(r.Header.Get("Content-Type"), "protobuf") {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	body = shift(body, p.skew)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

// jsonOnly removes protobuf from a list of formats.
func jsonOnly(accept string) string {
	var left []string
	for format := range strings.SplitSeq(accept, ",") {
		if !strings.Contains(format, "protobuf") {
			left = append(left, format)
		}
	}
	if len(left) == 0 {
		return "application/json"
	}
	return strings.Join(left, ",")
}

// answer shifts the times of a response.
func (p *Proxy) answer(response *http.Response) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.skew == 0 {
		return nil
	}
	response.Body = &shiftingReader{Closer: response.Body, lines: bufio.NewReader(response.Body), by: -p.skew}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// breakConnection breaks the connection of the request that is being served, as net/http documents it.
func breakConnection() { panic(http.ErrAbortHandler) }
