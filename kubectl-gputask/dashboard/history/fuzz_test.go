// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/pkg/accounting"
	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzSamples has Prometheus answer with any text. Samples are in order, each time once, and can be
// sent to the page.
func FuzzSamples(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"result":[{"values":[[1732190400,"3"],[1732190460,"NaN"],["x",1]]}]}}`), []byte(nil))
	f.Add([]byte(`{"status":"success","data":{"result":[{"values":[[1e300,"1"],[-1e300,"-1e308"]]},{"values":[[]]}]}}`), []byte(nil))
	f.Add([]byte(`{"status":"success","data":{"result":[{"metric":{"queue":"a","modelName":"NVIDIA A100"},"values":[[1732190400,"3"]]}]}}`), []byte(nil))
	f.Add([]byte(`{"status":"error","error":"bad_data"}`), []byte(nil))
	f.Fuzz(func(t *testing.T, text []byte, edits []byte) {
		text = fuzzjson.Edit(text, edits)
		answers := roundTrip(func(*http.Request) *http.Response {
			recorder := httptest.NewRecorder()
			_, _ = recorder.Write(text)
			return recorder.Result()
		})
		prometheus := &Prometheus{URL: &url.URL{Scheme: "http", Host: "127.0.0.1"}, HTTP: &http.Client{Transport: answers}}
		fuzzlimit.Check(t, fuzzlimit.Limits{Bytes: 16 << 20, PerByte: 16 << 10, CPU: 5 * time.Second}, len(text), func() {
			now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
			samples, err := prometheus.Samples(t.Context(), now.Add(-time.Hour), now)
			if err != nil {
				return
			}
			for i := range samples {
				if i > 0 && !samples[i].Time.After(samples[i-1].Time.Time) {
					t.Errorf("sample %d is of %v, the one before of %v", i, samples[i].Time, samples[i-1].Time)
				}
			}
			if _, err := json.Marshal(samples); err != nil {
				t.Errorf("the samples can't be sent: %v", err)
			}
			for _, dimension := range []string{accounting.ByQueue, accounting.ByModel} {
				checkSplits(t, prometheus, dimension, now)
			}
		})
	})
}

// checkSplits has the same answer read as the parts of the cluster.
func checkSplits(t *testing.T, prometheus *Prometheus, dimension string, now time.Time) {
	t.Helper()
	splits, missing, err := prometheus.Splits(t.Context(), dimension, now.Add(-time.Hour), now)
	if err != nil {
		return
	}
	if (len(splits) == 0) != (missing != "") {
		t.Errorf("%d moments by %s, and %q is missing", len(splits), dimension, missing)
	}
	for i := range splits {
		if len(splits[i].Parts) > rows.MaxParts+1 || i > 0 && !splits[i].Time.After(splits[i-1].Time) {
			t.Errorf("moment %d is of %v and has %d parts", i, splits[i].Time, len(splits[i].Parts))
		}
	}
	curves := CurvesOf(splits)
	if _, err := json.Marshal(curves); err != nil || len(curves.Series) > maxCurves+1 {
		t.Errorf("%d curves can't be sent: %v", len(curves.Series), err)
	}
}

type roundTrip func(*http.Request) *http.Response

// RoundTrip implements http.RoundTripper.
func (r roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return r(request), nil }
