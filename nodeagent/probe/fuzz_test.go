// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// FuzzRequest sends any query and any header with a time limit. A probe that runs has a deadline
// within the limit, and the answer is one of HTTP's.
func FuzzRequest(f *testing.F) {
	f.Add("target=x&module=icmp&node=n", "1.5")
	f.Add("target=x", "1e-300")
	f.Add("target=x", "NaN")
	f.Add("target=x&hostname=y", "Inf")
	f.Add("target=%zz;a", "-1")
	f.Fuzz(func(t *testing.T, query, limit string) {
		const longest = 5 * time.Second
		handler := New(Config{Clock: clock.RealClock{}, Limit: 1, Timeout: longest, Prober: stub{run: func(ctx context.Context) Result {
			deadline, limited := ctx.Deadline()
			if left := time.Until(deadline); !limited || left > longest {
				t.Errorf("%q and %q leave a probe %v", query, limit, left)
			}
			return Result{Reached: true}
		}}})
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/probe", nil)
		request.URL.RawQuery = query
		request.Header.Set(timeoutHeader, limit)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusOK && recorder.Code != http.StatusBadRequest {
			t.Errorf("the answer is %d %s", recorder.Code, recorder.Body)
		}
	})
}
