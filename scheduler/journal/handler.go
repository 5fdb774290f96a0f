// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"

	"k8s.io/klog/v2"
)

// Path is where the journal is served.
const Path = "/debug/gputask/journal"

var _ http.Handler = (*Recorder)(nil)

// ServeHTTP implements http.Handler: it answers with the whole journal.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "The journal can only be read.", http.StatusMethodNotAllowed)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/jsonl")
	header.Set("Cache-Control", "no-store")
	header.Set("Vary", "Accept-Encoding")
	if request.Method == http.MethodHead {
		return
	}
	var to io.Writer = w
	if strings.Contains(request.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		compressed := gzip.NewWriter(w)
		defer func() { _ = compressed.Close() }() // the other side is gone
		to = compressed
	}
	if _, err := r.ring.WriteTo(to); err != nil {
		klog.FromContext(request.Context()).V(2).Info("The journal was not sent completely", "err", err)
	}
}
