// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// timeoutHeader tells an agent how long its answer may take, in seconds.
	timeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"
	// maxHeaderBytes is more than an agent's answer has.
	maxHeaderBytes = 16 << 10
	// maxIdle, maxIdlePerAgent and idleTimeout bound the idle connections between rounds.
	// All simulated nodes have the same agent.
	maxIdle         = 512
	maxIdlePerAgent = 16
	idleTimeout     = 90 * time.Second
	// shownBytes is how much of a refusal is passed on.
	shownBytes = 300
)

// client calls agents, and nothing else: redirects are not followed, and the proxies of
// the environment are not used, as they are for destinations outside the cluster.
type client struct {
	http    *http.Client
	timeout time.Duration
}

func newClient(timeout time.Duration) *client {
	dialer := &net.Dialer{Timeout: timeout, Control: checkAddress}
	return &client{timeout: timeout, http: &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: timeout, MaxResponseHeaderBytes: maxHeaderBytes,
			MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdlePerAgent, IdleConnTimeout: idleTimeout,
			// Agents with --metrics-secure make their own certificates. They are sent nothing secret, and an
			// impostor's answer is worth no more than it is over plain HTTP.
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // see above
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// get sends a request to an agent.
func (c *client) get(ctx context.Context, url string) Answer {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Answer{Result: Unreachable, Problem: err}
	}
	request.Header.Set(timeoutHeader, strconv.FormatFloat(c.timeout.Seconds(), 'f', -1, 64))
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{Result: Unreachable, Problem: err}
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusOK:
		return parseAnswer(response.Body)
	case response.StatusCode == http.StatusTooManyRequests:
		return Answer{Result: Busy, Problem: refusal(response)}
	case response.StatusCode >= http.StatusBadRequest && response.StatusCode < http.StatusInternalServerError:
		return Answer{Result: Refused, Problem: refusal(response)}
	default:
		return Answer{Result: Invalid, Problem: fmt.Errorf("status %d", response.StatusCode)}
	}
}

// refusal returns the agent's error message.
func refusal(response *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(response.Body, shownBytes))
	if err != nil {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return fmt.Errorf("status %d: %s", response.StatusCode, strings.TrimSpace(string(text)))
}
