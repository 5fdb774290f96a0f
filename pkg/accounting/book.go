// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

// Time is GPU time in hundredths of GPU-seconds: shares of GPUs are hundredths, and Pods have times in whole seconds,
// so that sums are exact.
type Time int64

// Seconds returns GPU-seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(queueing.GPU) }

// Hours returns GPU-hours.
func (t Time) Hours() float64 { return t.Seconds() / time.Hour.Seconds() }

// Amounts are GPU times of the same work.
type Amounts struct {
	// Used is how long GPUs were held.
	Used Time
	// Waiting is how long GPUs were waited for.
	Waiting Time
	// Lost is the part of Used whose work was lost, when it was lost.
	Lost Time
}

// Plus returns the sum.
func (a Amounts) Plus(b Amounts) Amounts {
	return Amounts{Used: a.Used + b.Used, Waiting: a.Waiting + b.Waiting, Lost: a.Lost + b.Lost}
}

// Key is what GPU time is accounted to.
type Key struct {
	Namespace string
	// Task is the name of a GPUTask, and kind and name of another controller or Pod: "Job/train". Names of GPUTasks
	// have no slash.
	Task string
	// Queue is empty for none.
	Queue string
	// Model is that of the GPUs, "*" if several models were waited for, and empty if it is not known.
	Model string
	// Labels are those that are accounted, as "team=vision,user=ann" in the order of their names.
	Labels string
}

// Others stands for the names of what was merged to keep a Book within its bounds.
const Others = "(others)"

// Compare orders keys by namespace, task, queue, model and labels.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, other.Namespace), cmp.Compare(k.Task, other.Task), cmp.Compare(k.Queue, other.Queue),
		cmp.Compare(k.Model, other.Model), cmp.Compare(k.Labels, other.Labels))
}

// cell is the GPU time of a key in an hour of the day.
type cell struct {
	key  Key
	hour int
}

// Book is the GPU time of a day.
type Book struct {
	// Day is its first moment, in UTC.
	Day time.Time
	// From and AsOf bound the time that is counted. Both are in the day, or its end, and have whole seconds.
	From, AsOf time.Time
	// ResourceVersion is a version of the Pods not later than AsOf: whoever sees all changes since then can go on. It
	// is 0 if it is not known.
	ResourceVersion uint64

	cells map[cell]Amounts
}

const day = 24 * time.Hour

// Where Books are kept: each in a ConfigMap of this namespace, under this key. The name depends on the day only, and is
// used again after Days days, so that there are never more.
const (
	StoreNamespace = "gpu-controller-usage"
	StoreKey       = "usage.json.gz"
	Days           = 100
)

// StoreName returns the name of the ConfigMap with the Book of the day of a time. It may still hold that of an earlier
// day.
func StoreName(at time.Time) string {
	return fmt.Sprintf("gpu-usage-%02d", at.UTC().Unix()/int64(day/time.Second)%Days)
}

// NewBook returns an empty Book of the day of a time, whose count begins then.
func NewBook(from time.Time) *Book {
	from = from.UTC().Truncate(time.Second)
	return &Book{Day: from.Truncate(day), From: from, AsOf: from, cells: map[cell]Amounts{}}
}

// Next returns the Book of the day after, whose count begins with it.
func (b *Book) Next() *Book {
	next := NewBook(b.End())
	next.ResourceVersion = b.ResourceVersion
	return next
}

// End returns the end of the Book's day.
func (b *Book) End() time.Time { return b.Day.Add(day) }

// IsComplete reports whether the whole day is counted.
func (b *Book) IsComplete() bool { return !b.AsOf.Before(b.End()) }

// Clone returns a copy.
func (b *Book) Clone() *Book {
	clone := *b
	clone.cells = maps.Clone(b.cells)
	return &clone
}

// Add adds GPU time in the hour of a time, which must be in the Book's day.
func (b *Book) Add(key Key, at time.Time, amounts Amounts) {
	if amounts == (Amounts{}) {
		return
	}
	at = at.UTC()
	where := cell{key, at.Hour()}
	b.cells[where] = b.cells[where].Plus(amounts)
}

// Merge adds what another Book of the same day has counted since this one's AsOf.
func (b *Book) Merge(since *Book) {
	for where, amounts := range since.cells {
		b.cells[where] = b.cells[where].Plus(amounts)
	}
	b.AsOf = since.AsOf
}

// Until returns the Book as if it had been counted until an earlier time of its day. What was counted in the hour of
// that time is taken to have been used evenly.
func (b *Book) Until(at time.Time) *Book {
	at = second(at)
	earlier := &Book{Day: b.Day, From: b.From, AsOf: at, ResourceVersion: b.ResourceVersion, cells: map[cell]Amounts{}}
	if at.Before(b.From) {
		earlier.From = at
	}
	for where, amounts := range b.cells {
		counted := min(b.AsOf.Sub(b.Day)-time.Duration(where.hour)*time.Hour, time.Hour)
		left := min(at.Sub(b.Day)-time.Duration(where.hour)*time.Hour, counted)
		if left > 0 {
			earlier.cells[where] = amounts.part(left, counted)
		}
	}
	return earlier
}

// part returns the part that is left of what was counted in a time.
func (a Amounts) part(left, counted time.Duration) Amounts {
	of := func(all Time) Time { return Time(float64(all) * left.Seconds() / counted.Seconds()) }
	return Amounts{Used: of(a.Used), Waiting: of(a.Waiting), Lost: of(a.Lost)}
}

// Each calls a function with the GPU time of each key and hour, which begins at the given time, in no particular order.
func (b *Book) Each(do func(key Key, hour time.Time, amounts Amounts)) {
	for where, amounts := range b.cells {
		do(where.key, b.Day.Add(time.Duration(where.hour)*time.Hour), amounts)
	}
}

// Total returns the sum of the day.
func (b *Book) Total() (total Amounts) {
	for _, amounts := range b.cells {
		total = total.Plus(amounts)
	}
	return total
}
