// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// maxFaultBytes limits the size of a request.
const maxFaultBytes = 64 << 10

// Handler serves POST requests whose body is a Fault in JSON, which is injected.
func (s Sources) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var fault Fault
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxFaultBytes))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&fault)
		if err == nil && decoder.More() {
			err = errors.New("there is more after the JSON object")
		}
		if err != nil {
			err = fmt.Errorf("reading the fault: %w", err)
		} else {
			err = s.inject(fault)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}
