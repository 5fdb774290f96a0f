// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// FuzzOf reads any annotation. What is accepted is within its bounds, survives being written and
// read again, and never takes more of a node than the engine can count.
func FuzzOf(f *testing.F) {
	f.Add(`[{"plan":"plan-1","pod":"default/train-1","kind":"Move","gpus":["GPU-1","GPU-2"],"cpu":2000,"memory":4096,"others":{"rdma/hca":2},"priority":-5,"until":"2026-11-21T12:00:00Z"}]`, []byte(nil))
	f.Add(`[{"plan":"plan-1","pod":"default/train-0","kind":"Start","cards":1,"percent":30,"until":"2026-11-21T12:00:00Z"},{"pod":"a/b","kind":"Start","until":"2026-11-21T12:00:00.5+01:00"}]`, []byte(nil))
	f.Add(`[{"pod":"a/b","kind":"Move","cards":64,"cpu":9223372036854775807,"memory":9223372036854775807,"others":{"a/b":9223372036854775807}}]`, []byte(nil))
	f.Add(`null`, []byte(nil))
	f.Fuzz(func(t *testing.T, text string, edits []byte) {
		text = string(fuzzjson.Edit([]byte(text), edits))
		node := nodeWith(text)
		var list []Reservation
		var err error
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(text), func() { list, err = Of(node) })
		if err != nil {
			if list != nil {
				t.Errorf("%d reservations beside the error %v", len(list), err)
			}
			return
		}
		for i := range list {
			checkReservation(t, &list[i])
		}
		written, err := Format(list)
		if err != nil {
			t.Fatalf("%q can't be written: %v", text, err)
		}
		again, err := Of(nodeWith(written))
		if err != nil || len(again) != len(list) {
			t.Fatalf("%q became %q with %d of %d reservations: %v", text, written, len(again), len(list), err)
		}
		third, err := Format(again)
		if diff := cmp.Diff(written, third); err != nil || diff != "" {
			t.Errorf("not stable: %v\n%s", err, diff)
		}
	})
}

func checkReservation(t *testing.T, one *Reservation) {
	t.Helper()
	if count := one.Count(); count < 0 || count > placement.MaxCards {
		t.Errorf("%d cards are reserved, a node has at most %d", count, placement.MaxCards)
	}
	if percent := one.PercentOfEach(); percent < 1 || percent > placement.Card {
		t.Errorf("%d percent of each card are reserved", percent)
	}
	// So that a node's reservations can be added up.
	if most := int64(placement.MaxAmount); one.CPU > most || one.Memory > most {
		t.Errorf("%d of CPU and %d of memory are reserved, more than can be added up below %d", one.CPU, one.Memory, int64(math.MaxInt64))
	}
}
