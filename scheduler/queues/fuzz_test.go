// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
)

// FuzzOutcomes reads any text as outcomes of estimates that were kept. What is accepted corrects an
// estimate so that it is still one, and survives being written and read again.
func FuzzOutcomes(f *testing.F) {
	f.Add([]byte(`[{"age":1,"estimated":60,"waited":90},{"estimated":0,"waited":0}]`), int64(600), []byte(nil))
	f.Add([]byte(`[{"age":9223372036854775807,"estimated":315360000,"waited":1e-300},{"age":-1,"estimated":1e-300,"waited":315360000}]`), int64(0), []byte(nil))
	f.Add([]byte(`null`), int64(-1), []byte(nil))
	f.Add([]byte("["+strings.Repeat(`{"estimated":60,"waited":90},{"estimated":600,"waited":315360000},{"estimated":0,"waited":1e-9},`, 30)+`{"estimated":315360000,"waited":0}]`), int64(0), []byte(nil))
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data []byte, waited int64, edits []byte) {
		data = fuzzjson.Edit(data, edits)
		p, again := &outcomes{}, &outcomes{}
		var err error
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(data), func() { err = p.restore(data) })
		if err != nil {
			return
		}
		if len(p.last) > mostOutcomes {
			t.Errorf("%d outcomes are kept", len(p.last))
		}
		estimate := outlook.Estimate{Earliest: now.Add(time.Minute), Likely: now.Add(10 * time.Minute), Latest: now.Add(time.Hour)}
		long := time.Duration(waited) % mostWait
		adjusted := p.adjust(estimate, max(long, 0), now)
		if adjusted.Latest.Before(adjusted.Likely) || adjusted.Likely.Before(adjusted.Earliest) || adjusted.Earliest.Before(now) {
			t.Errorf("the estimate from %v to %v became %v to %v, now is %v", estimate.Earliest, estimate.Latest, adjusted.Earliest, adjusted.Latest, now)
		}
		written, err := p.encode(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.restore(written); err != nil {
			t.Fatalf("%q became %q: %v", data, written, err)
		}
		if same := again.adjust(estimate, max(long, 0), now); same != adjusted {
			t.Errorf("after a restart the estimate is %+v, not %+v", same, adjusted)
		}
	})
}
