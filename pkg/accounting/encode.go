// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// version is the version of the format.
	version = 1
	// MaxCells is how many keys and hours a Book has at most. 50,000 are 5,000 tasks that run for ten hours each.
	MaxCells = 50_000
	// MaxBytes is how large an encoded Book is at most: a ConfigMap holds 1 MiB.
	MaxBytes = 768 << 10
	// maxDecoded bounds what Decode reads, far above what Encode writes.
	maxDecoded = 64 << 20
)

// file is an encoded Book.
type file struct {
	Version         int       `json:"version"`
	Day             string    `json:"day"`
	From            time.Time `json:"from"`
	AsOf            time.Time `json:"asOf"`
	ResourceVersion uint64    `json:"resourceVersion,omitempty"`
	Rows            []row     `json:"rows"`
}

type row struct {
	Namespace string `json:"namespace,omitempty"`
	Task      string `json:"task,omitempty"`
	Queue     string `json:"queue,omitempty"`
	Model     string `json:"gpu,omitempty"`
	Labels    string `json:"labels,omitempty"`
	// Hours are hour of the day, used, waiting, lost, in hundredths of GPU-seconds.
	Hours [][4]int64 `json:"hours"`
}

// Encode returns a Book as JSON, compressed with gzip. It first merges what is needed to keep within the bounds.
func (b *Book) Encode() ([]byte, error) { return b.encode(MaxCells, MaxBytes) }

func (b *Book) encode(maxCells, maxBytes int) ([]byte, error) {
	for limit := maxCells; ; limit = limit * 3 / 4 {
		b.shrink(limit)
		content, err := b.compress()
		if err != nil || len(content) <= maxBytes {
			return content, err
		}
		if limit == 0 {
			return nil, fmt.Errorf("the usage of %s takes %d bytes though all of it is merged, %d are possible", b.Day.Format(time.DateOnly), len(content), maxBytes)
		}
		limit = min(limit, len(b.cells))
	}
}

func (b *Book) compress() ([]byte, error) {
	text, err := json.Marshal(b.file())
	if err != nil {
		return nil, fmt.Errorf("encoding usage: %w", err)
	}
	var content bytes.Buffer
	writer := gzip.NewWriter(&content)
	if _, err := writer.Write(text); err != nil {
		return nil, fmt.Errorf("compressing usage: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("compressing usage: %w", err)
	}
	return content.Bytes(), nil
}

func (b *Book) file() *file {
	f := &file{Version: version, Day: b.Day.Format(time.DateOnly), From: b.From, AsOf: b.AsOf, ResourceVersion: b.ResourceVersion, Rows: []row{}}
	cells := slices.SortedFunc(maps.Keys(b.cells), func(x, y cell) int { return cmp.Or(x.key.Compare(y.key), cmp.Compare(x.hour, y.hour)) })
	for i, where := range cells {
		if i == 0 || cells[i-1].key != where.key {
			key := where.key
			f.Rows = append(f.Rows, row{Namespace: key.Namespace, Task: key.Task, Queue: key.Queue, Model: key.Model, Labels: key.Labels})
		}
		last, amounts := &f.Rows[len(f.Rows)-1], b.cells[where]
		last.Hours = append(last.Hours, [4]int64{int64(where.hour), int64(amounts.Used), int64(amounts.Waiting), int64(amounts.Lost)})
	}
	return f
}

// Decode reads what Encode has written.
func Decode(content []byte) (*Book, error) {
	reader, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("decompressing usage: %w", err)
	}
	f := &file{}
	if err := json.NewDecoder(io.LimitReader(reader, maxDecoded)).Decode(f); err != nil {
		return nil, fmt.Errorf("decoding usage: %w", err)
	}
	if f.Version != version {
		return nil, fmt.Errorf("usage has version %d, this program knows version %d: use a newer one", f.Version, version)
	}
	begin, err := time.Parse(time.DateOnly, f.Day)
	if err != nil {
		return nil, fmt.Errorf("decoding usage: %w", err)
	}
	b := &Book{Day: begin, From: second(f.From), AsOf: second(f.AsOf), ResourceVersion: f.ResourceVersion, cells: map[cell]Amounts{}}
	if b.From.Before(b.Day) || b.AsOf.Before(b.From) || b.AsOf.After(b.End()) {
		return nil, fmt.Errorf("usage of %s is from %s to %s", f.Day, b.From.Format(time.RFC3339), b.AsOf.Format(time.RFC3339))
	}
	left := mostTime
	for i := range f.Rows {
		if err := b.add(&f.Rows[i], &left); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// mostTime bounds the GPU time of a Book that is read, far above what any cluster has in a day: so
// that the Books of all days can be added up.
const mostTime = Time(math.MaxInt64 / 1024)

// add adds a row. left is how much GPU time the Book may still have.
func (b *Book) add(r *row, left *Time) error {
	key := Key{Namespace: r.Namespace, Task: r.Task, Queue: r.Queue, Model: r.Model, Labels: r.Labels}
	for _, hour := range r.Hours {
		if hour[0] < 0 || hour[0] > 23 {
			return fmt.Errorf("usage of %s has an hour %d", b.Day.Format(time.DateOnly), hour[0])
		}
		for _, amount := range hour[1:] {
			if amount < 0 || Time(amount) > *left {
				return fmt.Errorf("usage of %s has a GPU time of %d in hour %d, or of more than %d together", b.Day.Format(time.DateOnly), amount, hour[0], mostTime)
			}
			*left -= Time(amount)
		}
		where := cell{key, int(hour[0])}
		b.cells[where] = b.cells[where].Plus(Amounts{Used: Time(hour[1]), Waiting: Time(hour[2]), Lost: Time(hour[3])})
	}
	return nil
}
