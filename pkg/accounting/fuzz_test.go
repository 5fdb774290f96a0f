// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"bytes"
	"compress/gzip"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/fuzzjson"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzDecode reads any text as a Book, compressed as Books are. What is accepted is told by hour
// and in total alike, and survives being written, merged to any size, and read again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"day":"2026-11-21","from":"2026-11-21T00:00:00Z","asOf":"2026-11-21T12:00:00Z","resourceVersion":7,"rows":[{"namespace":"a","task":"t","queue":"q","gpu":"h100","labels":"team=x","hours":[[0,100,0,0],[11,360000,5,3]]}]}`), uint16(1), []byte(nil))
	f.Add([]byte(`{"version":1,"day":"2026-11-21","from":"2026-11-21T00:00:00Z","asOf":"2026-11-22T00:00:00Z","rows":[{"hours":[[0,9223372036854775807,0,0],[0,1,0,0]]}]}`), uint16(0), []byte(nil))
	f.Add([]byte(`{"version":1,"day":"2026-11-21","from":"2026-11-21T00:00:00Z","asOf":"2026-11-21T00:00:00Z","rows":[{"namespace":"a","hours":[]},{"namespace":"b","hours":[[1,1,1,1],[1,1,1,1]]}]}`), uint16(3), []byte(nil))
	f.Add([]byte(`{"version":2}`), uint16(2), []byte(nil))
	f.Fuzz(func(t *testing.T, text []byte, most uint16, edits []byte) {
		text = fuzzjson.Edit(text, edits)
		content := packed(t, text)
		var book *Book
		var err error
		fuzzlimit.Check(t, fuzzlimit.Parsing, len(text), func() { book, err = Decode(content) })
		if err != nil {
			return
		}
		total := book.Total()
		checkBook(t, book, total)
		written, err := book.encode(int(most), MaxBytes)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		again, err := Decode(written)
		if err != nil {
			t.Fatalf("%q can't be read again: %v", text, err)
		}
		if again.Total() != total || !again.AsOf.Equal(book.AsOf) || !again.From.Equal(book.From) || !again.Day.Equal(book.Day) || again.ResourceVersion != book.ResourceVersion {
			t.Errorf("%q became another Book: %+v, was %+v", text, again, book)
		}
		checkBook(t, again, total)
	})
}

// FuzzDecodeBytes reads any bytes, which need not be compressed. A small input never takes much
// memory.
func FuzzDecodeBytes(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"))
	f.Fuzz(func(t *testing.T, content []byte) {
		limits := fuzzlimit.Limits{Bytes: 8 * maxDecoded, CPU: 10 * time.Second}
		fuzzlimit.Check(t, limits, 0, func() {
			if book, err := Decode(content); err == nil {
				checkBook(t, book, book.Total())
			}
		})
	})
}

// checkBook fails the test if questions about a Book don't agree.
func checkBook(t *testing.T, book *Book, total Amounts) {
	t.Helper()
	if total.Used < 0 || total.Waiting < 0 || total.Lost < 0 {
		t.Errorf("the total is %+v", total)
	}
	query := &Query{By: []string{ByQueue, ByNamespace, LabelPrefix + "team"}, Since: book.Day, Until: book.End()}
	var sum Amounts
	for _, row := range Summarize([]*Book{book}, query).Rows {
		sum = sum.Plus(row.Amounts)
	}
	if sum != total {
		t.Errorf("the rows have %+v together, the total is %+v", sum, total)
	}
}

func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	var content bytes.Buffer
	writer := gzip.NewWriter(&content)
	if _, err := writer.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

// FuzzParseBy reads any text as dimensions. What is accepted is accepted again, as the same.
func FuzzParseBy(f *testing.F) {
	f.Add("queue")
	f.Add("namespace,label:team,task,gpu")
	f.Add("label:")
	f.Fuzz(func(t *testing.T, text string) {
		by, err := ParseBy(text)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, dimension := range by {
			if seen[dimension] {
				t.Errorf("%q has the dimension %s twice", text, dimension)
			}
			seen[dimension] = true
			if again, err := ParseBy(dimension); err != nil || len(again) == 0 || again[len(again)-1] != dimension {
				t.Errorf("%q has the dimension %q, which is read as %q, %v", text, dimension, again, err)
			}
		}
	})
}
