// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHandler(t *testing.T) {
	t.Parallel()
	fine := []string{"fine", "fine", "fine", "fine"}
	tests := map[string]struct {
		body   string
		status int
		answer string
		want   []string // the GPUs
	}{
		"a fault":                     {`{"gpu": 1, "fault": "Lost"}`, http.StatusOK, "ok\n", []string{"fine", "lost", "fine", "fine"}},
		"a fault of the node":         {`{"node": "n1", "fault": "ECC"}`, http.StatusOK, "ok\n", []string{"ECC", "ECC", "ECC", "ECC"}},
		"a fault of a node elsewhere": {`{"node": "n2", "fault": "Lost"}`, http.StatusBadRequest, `node: "n2" is not one of n1` + "\n", fine},
		"nothing":                     {"", http.StatusBadRequest, "reading the fault: EOF\n", fine},
		"something that is no JSON":   {"fault: Lost", http.StatusBadRequest, "reading the fault: invalid character", fine},
		"an unknown field":            {`{"fault": "Lost", "GPUs": [1]}`, http.StatusBadRequest, `reading the fault: json: unknown field "GPUs"`, fine},
		"two faults":                  {`{"fault": "Lost"} {"fault": "ECC"}`, http.StatusBadRequest, "reading the fault: there is more after the JSON object\n", fine},
		"an unknown fault":            {`{"fault": "Gone"}`, http.StatusBadRequest, `fault: "Gone" is not one of XID, ECC`, fine},
		"a GPU that is not there":     {`{"gpu": 4, "fault": "Lost"}`, http.StatusBadRequest, "gpu: there is no GPU 4, the node has 4, counted from 0\n", fine},
		"an XID without a number":     {`{"fault": "XID"}`, http.StatusBadRequest, "xid: the fault XID needs the number of the error\n", fine},
		"a delay that is no duration": {`{"fault": "Slow", "delay": 200}`, http.StatusBadRequest, "reading the fault: json: cannot unmarshal number", fine},
		"more than any fault needs":   {`{"fault": "` + strings.Repeat("x", maxFaultBytes) + `"}`, http.StatusBadRequest, "reading the fault: http: request body too large\n", fine},
		"a slow GPU, with its unit":   {`{"gpu": 0, "fault": "Slow", "delay": "1ns"}`, http.StatusOK, "ok\n", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := newSource(t, newClock())
			handler := Sources{"n1": source}.Handler()
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/simulation/faults", strings.NewReader(test.body)))
			if recorder.Code != test.status {
				t.Errorf("status %d, want %d", recorder.Code, test.status)
			}
			if answer := recorder.Body.String(); !strings.HasPrefix(answer, test.answer) {
				t.Errorf("answer %q, want %q", answer, test.answer)
			}
			if test.want == nil {
				return
			}
			if diff := cmp.Diff(test.want, states(source)); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
		})
	}
}
