// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestTimesAreInTheZoneOfTheReader(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute)) }
	estimate := &v1.StartEstimate{
		Earliest: at(10), Likely: at(20), Latest: at(40), Behind: "gang (24 GPUs)", Rough: true, AssumedFor: "gang (24 GPUs)", AssumedRuntimeSeconds: 4 * 3600,
	}
	paris := &Page{Now: noon.In(time.FixedZone("CET", 3600))}
	tests := map[string]struct{ got, want string }{
		"an estimate": {
			paris.expectation(estimate),
			"roughly between 13:10 and 13:40, likely 13:20 CET, after gang (24 GPUs) ends; no run time is known for gang (24 GPUs): 4 h assumed",
		},
		"a message":             {paris.message("preempted at 2026-11-27T11:56:02Z:\nit waits"), "preempted at 12:56 CET: it waits"},
		"a time of another day": {paris.message("until 2026-11-28T11:56:02Z"), "until 2026-11-28 12:56 CET"},
		"what is no time":       {paris.message("2026-99-99T99:99:99Z"), "2026-99-99T99:99:99Z"},
		"a second":              {paris.second(noon), "2026-11-27 13:00:00 CET"},
		"in UTC":                {(&Page{Now: noon}).minute(noon), "2026-11-27 12:00 UTC"},
		"for programs": {
			plain(noon).expectation(&v1.StartEstimate{Earliest: at(10), Likely: at(10), Latest: at(10), Backfill: true}),
			"at 2026-11-27T12:10:00Z, before some of those ahead of it, which it does not delay",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.got != test.want {
				t.Errorf("got %q, want %q", test.got, test.want)
			}
		})
	}
}
