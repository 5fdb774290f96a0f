// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"sync/atomic"

	"falldio.github.io/gpu-controller/pkg/endpoints"
)

// newServer serves at address, or nowhere if that is "0" or empty. alive is
// the leader election's health check.
func newServer(address string, metrics *controllerMetrics, ready *atomic.Bool, alive endpoints.Check) *endpoints.Server {
	return endpoints.New("metrics-bind-address", address, metrics.handler(), alive, func(*http.Request) error {
		if !ready.Load() {
			return errors.New("the caches have not synced yet")
		}
		return nil
	})
}
