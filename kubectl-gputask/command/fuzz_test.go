// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/accounting"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// FuzzCompareValues compares any three texts as values to sort by. There is an order between them.
func FuzzCompareValues(f *testing.F) {
	f.Add("2", "1x", "1E")
	f.Add("0.5", "16Gi", "")
	f.Add("1e3", "1000", "1k")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		for _, pair := range [][2]any{{a, b}, {b, c}, {a, c}, {a, a}, {a, nil}, {1.5, b}} {
			if compareValues(pair[0], pair[1]) != -compareValues(pair[1], pair[0]) {
				t.Errorf("%q is before %q, or after it, in both directions", pair[0], pair[1])
			}
		}
		for _, three := range [][3]string{{a, b, c}, {a, c, b}, {b, a, c}, {b, c, a}, {c, a, b}, {c, b, a}} {
			if compareValues(three[0], three[1]) <= 0 && compareValues(three[1], three[2]) <= 0 && compareValues(three[0], three[2]) > 0 {
				t.Errorf("%q is not after %q, that not after %q, but the first after the last", three[0], three[1], three[2])
			}
		}
	})
}

// FuzzSortBy reads any text as the field to sort by. Tasks are neither lost nor doubled.
func FuzzSortBy(f *testing.F) {
	for _, text := range []string{".metadata.name", "{.spec.replicas}", "spec['gpu-amount']", ".spec.roles[*].name", ".status..message", "{range .items}", ".spec[0:1:0]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		field, err := newSortField(text)
		if err != nil {
			return
		}
		tasks := make([]v1.GPUTask, 3)
		for i, amount := range []string{"2", "0.5", "1x"} {
			tasks[i].Name, tasks[i].Spec.GPUAmount = amount, amount
		}
		if err := field.sort(tasks); err != nil {
			return
		}
		left := map[string]bool{}
		for i := range tasks {
			left[tasks[i].Name] = true
		}
		if len(left) != len(tasks) {
			t.Errorf("sorted by %q there are %v", text, left)
		}
	})
}

// FuzzMoment reads any text as a moment of --since. A moment that is said to be some time ago is not
// later than now, and a period of two moments has whole hours.
func FuzzMoment(f *testing.F) {
	for _, text := range []string{"7d", "12h", "2026-11-01", "2026-11-01T12:00:00Z", "65535d", "2562047h47m16.854775807s", "0000-01-01", "-1h"} {
		f.Add(text)
	}
	now := time.Date(2026, 11, 21, 12, 34, 56, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		at, err := moment(text, now)
		if err != nil {
			return
		}
		if ago, err := time.ParseDuration(text); err == nil && (ago < 0 || at.After(now)) {
			t.Errorf("%q is %v, now is %v", text, at, now)
		}
		since, until := accounting.Whole(at, now)
		if since.Truncate(time.Hour) != since || until.Truncate(time.Hour) != until || since.After(at) || until.Before(now) {
			t.Errorf("%q is the period from %v to %v", text, since, until)
		}
	})
}
