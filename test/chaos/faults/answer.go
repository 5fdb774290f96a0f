// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"maps"
	"net/http"
)

// answer is a response that is kept, to be sent later or never.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func newAnswer() *answer { return &answer{header: http.Header{}, code: http.StatusOK} }

// Header returns the header, to be changed.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader keeps the status.
func (a *answer) WriteHeader(code int) { a.code = code }

// Write keeps a part of the body.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// sendTo sends the response.
func (a *answer) sendTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body.Bytes()) // an error means that the client is gone
}
