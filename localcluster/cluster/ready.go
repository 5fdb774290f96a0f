// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

const (
	probeInterval = 50 * time.Millisecond
	probeTimeout  = 2 * time.Second
	// startAttempts is how often a component may exit before it is healthy for the
	// first time.
	startAttempts = 3
	// reasonSize limits how much of a failed response is shown.
	reasonSize = 1 << 10
)

// startError reports that one component failed to start.
type startError struct {
	component string
	log       string
	err       error
}

func (e *startError) Error() string { return fmt.Sprintf("%s: %v", e.component, e.err) }
func (e *startError) Unwrap() error { return e.err }

// waitUntilHealthy returns when the component's health check succeeds.
func (c *cluster) waitUntilHealthy(ctx context.Context, component string, client *http.Client, url string) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, probeInterval, true, func(ctx context.Context) (bool, error) {
		if c.supervisor.Exits(component) >= startAttempts {
			return false, errors.New("it kept exiting")
		}
		last = probe(ctx, client, url)
		return last == nil, nil
	})
	if err != nil {
		if wait.Interrupted(err) {
			err = errors.Join(err, last)
		}
		return &startError{component: component, log: c.layout.log(component), err: err}
	}
	c.console.done("%s", component)
	return nil
}

// probe returns nil if the server's health check succeeds.
func probe(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, reasonSize))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return nil
}

// etcdClient returns a client with the rights of the API server.
func etcdClient(l layout) (*http.Client, error) {
	client := l.pki(pkiEtcdClient)
	return rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CertFile: client + ".crt", KeyFile: client + ".key", CAFile: l.pki(pkiEtcdAuthority) + ".crt",
	}})
}
