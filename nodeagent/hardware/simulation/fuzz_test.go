// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzHandler sends any body to the page that takes faults, and lets any environment of a process be
// read. The answer is one of HTTP's, and the GPUs can be read or are lost afterwards.
func FuzzHandler(f *testing.F) {
	f.Add(`{"gpu":0,"fault":"XID","xid":79}`, "FALLDIO_VISIBLE_DEVICES=GPU\x00GPU_SHARE_PERCENT=30")
	f.Add(`{"node":"n2","fault":"MIG","slices":["3g.40gb","1g.10gb"]}`, "GPU_SHARE_PERCENT=9223372036854775807")
	f.Add(`{"fault":"Slow","delay":"1ns"} {}`, "")
	f.Add(`{"fault":"RecoveryAction","action":"Unknown9"}`, "=\x00==")
	f.Fuzz(func(t *testing.T, body, environment string) {
		profile := Default()
		profile.Count = new(2)
		source := New(profile, "n1", newClock())
		uuid := UUID("n1", 0)
		source.FindProcesses(fstest.MapFS{"7/environ": {Data: []byte(strings.ReplaceAll(environment, "GPU", uuid))}})
		handler := Sources{"n1": source}.Handler()
		recorder := httptest.NewRecorder()
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(body), func() {
			handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/faults", strings.NewReader(body)))
		})
		if recorder.Code != http.StatusOK && recorder.Code != http.StatusBadRequest {
			t.Errorf("the answer is %d %s", recorder.Code, recorder.Body)
		}
		if strings.Contains(body, "Hung") || strings.Contains(body, "Slow") {
			return // reading would wait
		}
		sample, err := source.Processes(uuid)
		if err != nil {
			return
		}
		for _, process := range sample.Processes {
			for _, quantity := range []gpu.Quantity{gpu.MemoryUsed, gpu.Utilization} {
				if value := process.Values[quantity]; !(value >= 0) {
					t.Errorf("a process uses %v of %v", value, quantity)
				}
			}
		}
	})
}
