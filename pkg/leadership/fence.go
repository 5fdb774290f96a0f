// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// ErrNotLeading means that a write was not begun because another process may be the leader.
var ErrNotLeading = errors.New("this process does not lead, or has not renewed its lease in time")

// Fence wraps a transport: writes begin only while this process leads, and those in flight end with its term, before
// another process can take the lease over. Whoever writes through it can't forget to ask.
func (g *Guard) Fence(transport http.RoundTripper) http.RoundTripper {
	return &fence{guard: g, transport: transport}
}

type fence struct {
	guard     *Guard
	transport http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f *fence) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || request.Method == http.MethodHead || request.Method == http.MethodOptions {
		return f.transport.RoundTrip(request)
	}
	if !f.guard.Leads() {
		return nil, ErrNotLeading
	}
	ctx, cancel := f.guard.withinTerm(request.Context())
	response, err := f.transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &boundBody{ReadCloser: response.Body, cancel: cancel}
	return response, nil
}

// withinTerm returns a context that ends with the present term.
func (g *Guard) withinTerm(ctx context.Context) (context.Context, context.CancelFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unlimited {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, g.until.Sub(g.clock.Now()), ErrNotLeading)
}

// boundBody ends the context of its request when it is closed.
type boundBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b *boundBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
