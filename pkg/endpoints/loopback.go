// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"net/http"
	"net/netip"
)

// OnlyLoopback serves requests from this machine and rejects all others.
func OnlyLoopback(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !from.Addr().Unmap().IsLoopback() {
			http.Error(w, "only for clients on the same machine", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}
