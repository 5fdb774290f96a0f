// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"encoding/json"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzRecord reads any text as submissions that were kept. What is accepted is in order, bounded,
// can be added to and asked, and survives being written and read again.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`[{"at":"2026-11-20T12:00:00Z","queue":"research","percent":800,"task":{"namespace":"vision","name":"train","gpus":8},"needs":[{"Members":2,"Percent":400,"Models":["h100"]}],"id":7}]`), []byte(nil))
	f.Add([]byte(`[{"at":"2026-11-20T12:00:00Z","task":{},"needs":null,"id":1},{"at":"2026-11-20T12:00:30Z","task":{},"needs":null,"id":1},{"at":"2026-11-10T12:00:00Z","task":{},"needs":[],"id":2}]`), []byte(nil))
	f.Add([]byte(`[{"at":"9999-12-31T23:59:59Z","task":{},"needs":null,"id":1},{"at":"0001-01-01T00:00:01Z","task":{},"needs":null,"id":2}]`), []byte(nil))
	f.Add([]byte(`null`), []byte(nil))
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data []byte, edits []byte) {
		data = fuzzjson.Edit(data, edits)
		record := &Record{}
		var err error
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(data), func() { err = json.Unmarshal(data, record) })
		if err != nil {
			return
		}
		checkRecord(t, record, now)
		written, err := json.Marshal(record)
		if err != nil {
			t.Fatalf("%q can't be written: %v", data, err)
		}
		again := &Record{}
		if err := json.Unmarshal(written, again); err != nil {
			t.Fatalf("%q became %q: %v", data, written, err)
		}
		if again.Len() != record.Len() {
			t.Errorf("%q became %q: %d of %d submissions are left", data, written, again.Len(), record.Len())
		}
		record.Merge(again)
		record.Add("default/train", Submission{At: now})
		checkRecord(t, record, now)
	})
}

func checkRecord(t *testing.T, record *Record, now time.Time) {
	t.Helper()
	if record.Len() > most {
		t.Errorf("%d submissions are remembered, more than %d", record.Len(), most)
	}
	for i := range record.list {
		if i > 0 && record.list[i].At.Before(record.list[i-1].At) {
			t.Errorf("submission %d is before the one before it", i)
		}
	}
	for _, list := range record.Again(now) {
		for i := range list {
			if list[i].At.Before(now) || list[i].At.After(now.Add(day)) {
				t.Errorf("a submission comes again at %v, now is %v", list[i].At, now)
			}
		}
	}
	if half := record.Clone(record.Len() / 2); half.Len() > record.Len()/2 {
		t.Errorf("a half of %d has %d", record.Len(), half.Len())
	}
}
