// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// busyBook returns a Book with so many tasks of random size that run for several hours.
func busyBook(tasks, hours int) *Book {
	dice := rand.New(rand.NewPCG(1, 1))
	book := NewBook(midnight)
	for i := range tasks {
		key := Key{
			Namespace: fmt.Sprintf("team-%d", i%50), Task: fmt.Sprintf("train-%x", dice.Uint64()), Queue: fmt.Sprintf("queue-%d", i%50), Model: "h100-80gb-hbm3",
			Labels: fmt.Sprintf("project=p%d", i%100),
		}
		for hour := range hours {
			book.Add(key, midnight.Add(time.Duration(hour)*time.Hour), Amounts{Used: Time(dice.Int64N(3_000_000)), Waiting: Time(dice.Int64N(3_000_000))})
		}
	}
	return book
}

// sums returns what Each tells, by what a function makes of the keys.
func sums(book *Book, by func(*Key)) map[Key]Amounts {
	got := map[Key]Amounts{}
	book.Each(func(key Key, _ time.Time, amounts Amounts) {
		by(&key)
		got[key] = got[key].Plus(amounts)
	})
	return got
}

func TestABookIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	book := busyBook(100, 10)
	book.AsOf, book.ResourceVersion = midnight.Add(10*time.Hour), 4711
	content, err := book.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(book, decode(t, content), cmp.AllowUnexported(Book{}, cell{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestABookStaysWithinItsBounds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		tasks, hours, maxCells, maxBytes int
		// by is what the sums of which stay the same.
		by func(*Key)
	}{
		"tasks are merged":                  {3000, 4, 2000, MaxBytes, func(key *Key) { key.Task = "" }},
		"tasks are merged to save bytes":    {3000, 4, MaxCells, 40_000, func(key *Key) { key.Task = "" }},
		"labels are given up":               {3000, 4, 300, MaxBytes, func(key *Key) { key.Task, key.Labels = "", "" }},
		"namespaces are given up":           {3000, 6, 120, MaxBytes, func(key *Key) { *key = Key{} }},
		"nothing is merged without need":    {3000, 4, 12_000, MaxBytes, func(*Key) {}},
		"the most that fits into ConfigMap": {50_000, 2, MaxCells, MaxBytes, func(key *Key) { key.Task = "" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			book := busyBook(test.tasks, test.hours)
			before := sums(book, test.by)
			content, err := book.encode(test.maxCells, test.maxBytes)
			if err != nil {
				t.Fatal(err)
			}
			if len(content) > test.maxBytes || len(book.cells) > test.maxCells {
				t.Errorf("%d cells in %d bytes", len(book.cells), len(content))
			}
			if diff := cmp.Diff(before, sums(decode(t, content), test.by)); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
			t.Logf("%d cells in %d bytes", len(book.cells), len(content))
		})
	}
}

func TestTheLargestTasksKeepTheirNames(t *testing.T) {
	t.Parallel()
	book := NewBook(midnight)
	for i := range 10 {
		book.Add(Key{Namespace: "a", Task: fmt.Sprintf("task-%d", i)}, midnight, inGPUSeconds(int64(i+1), 0, 0))
	}
	book.shrink(4)
	want := map[Key]Amounts{
		{Namespace: "a", Task: "task-9"}: inGPUSeconds(10, 0, 0), {Namespace: "a", Task: "task-8"}: inGPUSeconds(9, 0, 0),
		{Namespace: "a", Task: "task-7"}: inGPUSeconds(8, 0, 0), {Namespace: "a", Task: Others}: inGPUSeconds(28, 0, 0),
	}
	if diff := cmp.Diff(want, sums(book, func(*Key) {})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A tenant may name as many tasks as it likes, and give each a label of its own.
func TestANamespaceWithManyRowsLosesItsOwnFirst(t *testing.T) {
	t.Parallel()
	book := NewBook(midnight)
	few := map[Key]Amounts{}
	for i := range 100 {
		key := Key{Namespace: fmt.Sprint("few-", i%4), Task: fmt.Sprint("task-", i), Labels: fmt.Sprint("project=", i%3)}
		few[key] = inGPUSeconds(1, 0, 0)
		book.Add(key, midnight, few[key])
	}
	for i := range 5000 {
		book.Add(Key{Namespace: "many", Task: fmt.Sprint("task-", i), Labels: fmt.Sprint("project=", i)}, midnight, inGPUSeconds(1000, 0, 0))
	}
	before := sums(book, func(key *Key) { key.Task, key.Labels = "", "" })
	book.shrink(300)
	if len(book.cells) > 300 {
		t.Errorf("%d cells are left", len(book.cells))
	}
	after := sums(book, func(*Key) {})
	for key, want := range few {
		if after[key] != want {
			t.Errorf("%+v has %+v, want %+v", key, after[key], want)
		}
	}
	if diff := cmp.Diff(before, sums(book, func(key *Key) { key.Task, key.Labels = "", "" })); diff != "" {
		t.Errorf("sums by namespace (-before +after):\n%s", diff)
	}
}

func TestWhatIsNoBookIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"no JSON":                        {`{`, "decoding usage"},
		"a newer version":                {`{"version": 2}`, "version 2, this program knows version 1"},
		"no day":                         {`{"version": 1}`, "decoding usage"},
		"another day's count":            {`{"version": 1, "day": "2026-11-21", "from": "2026-11-20T00:00:00Z", "asOf": "2026-11-21T00:00:00Z"}`, "is from 2026-11-20"},
		"an hour too many":               {`{"version": 1, "day": "2026-11-21", "from": "2026-11-21T00:00:00Z", "asOf": "2026-11-21T00:00:00Z", "rows": [{"hours": [[24, 1, 1, 1]]}]}`, "hour 24"},
		"a negative time":                {`{"version": 1, "day": "2026-11-21", "from": "2026-11-21T00:00:00Z", "asOf": "2026-11-21T00:00:00Z", "rows": [{"hours": [[2, 1, -1, 1]]}]}`, "a GPU time of -1 in hour 2"},
		"more time than can be added up": {`{"version": 1, "day": "2026-11-21", "from": "2026-11-21T00:00:00Z", "asOf": "2026-11-21T00:00:00Z", "rows": [{"hours": [[2, 9000000000000000, 0, 0]]}, {"hours": [[3, 9000000000000000, 0, 0]]}]}`, "a GPU time of 9000000000000000 in hour 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var content bytes.Buffer
			writer := gzip.NewWriter(&content)
			if _, err := writer.Write([]byte(test.text)); err != nil {
				t.Fatal(err)
			}
			if err := writer.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Decode(content.Bytes()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	if _, err := Decode([]byte("plain")); err == nil || !strings.Contains(err.Error(), "decompressing usage") {
		t.Errorf("what is not compressed: %v", err)
	}
}
