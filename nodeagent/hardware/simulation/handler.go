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

// Handler serves POST requests whose body is a Fault in JSON. find returns the Source of a
// node, or an error that lists the existing ones.
func Handler(find func(node string) (*Source, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var fault Fault
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxFaultBytes))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&fault)
		if err == nil && decoder.More() {
			err = errors.New("there is more after the JSON object")
		}
		if err != nil {
			http.Error(w, fmt.Sprintf("reading the fault: %v", err), http.StatusBadRequest)
			return
		}
		source, err := find(fault.Node)
		if err == nil {
			err = source.Inject(fault)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, "ok")
	})
}
