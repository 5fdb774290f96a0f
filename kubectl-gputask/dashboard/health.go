// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
)

const (
	// healthPeriod is how often the API server is asked whether it answers, while somebody looks, and healthTimeout how
	// long it may take.
	healthPeriod  = 2 * time.Second
	healthTimeout = 5 * time.Second
)

// health is whether the API server answers. It is safe for concurrent use.
type health struct {
	options *Options
	changed func()

	mu      sync.Mutex
	problem string
	since   time.Time
}

// run asks until ctx ends, while it is wanted.
func (h *health) run(ctx context.Context, wanted func() bool) {
	cluster.Every(ctx, h.options.Clock, healthPeriod, func() {
		if !wanted() {
			return
		}
		limited, cancel := context.WithTimeout(ctx, healthTimeout)
		// All users may read it.
		_, err := h.options.Clients.Kube.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(limited)
		cancel()
		if ctx.Err() == nil {
			h.failed(err)
		}
	})
}

// failed notes how asking went; nil for well.
func (h *health) failed(err error) {
	problem := problemOf(err)
	h.mu.Lock()
	news := (h.problem == "") != (problem == "")
	if news {
		h.since = h.options.Clock.Now()
	}
	h.problem = problem
	h.mu.Unlock()
	if news {
		h.changed()
	}
}

// problemOf returns what an error means for the viewer; empty if the API server answers.
func problemOf(err error) string {
	switch {
	case err == nil, apierrors.IsForbidden(err):
		return ""
	case apierrors.IsUnauthorized(err):
		return "The API server does not accept your credentials any more: " + err.Error()
	default:
		return "The API server can't be reached: " + err.Error()
	}
}

// trouble returns why the API server does not answer, and since when; empty if it does.
func (h *health) trouble() (problem string, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problem, h.since
}

// isUnreachable reports whether an error may go away by itself: the API server did not answer, or is starting or
// stopping.
func isUnreachable(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsTimeout(err) || utilnet.IsProbableEOF(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}
