// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	format "falldio.github.io/gpu-controller/pkg/journal"
)

// ring is the files of a journal, which together are never larger than a bound. Each is a segment that can be read
// without the others: the oldest ones are removed.
type ring struct {
	directory string
	most      int64

	mu       sync.Mutex
	segments []file
	// last is the number of the last segment.
	last uint64
}

// file is a segment.
type file struct {
	path string
	size int64
}

// openRing returns the ring in a directory, which it creates if needed.
func openRing(directory string, most int64) (*ring, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	r := &ring{directory: directory, most: most}
	for _, entry := range entries {
		number, isSegment := format.SegmentNumber(entry.Name())
		if !isSegment || !entry.Type().IsRegular() {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r.segments = append(r.segments, file{filepath.Join(directory, entry.Name()), info.Size()})
		r.last = max(r.last, number)
	}
	slices.SortFunc(r.segments, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return r, nil
}

// next returns the path of a new segment.
func (r *ring) next() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	return filepath.Join(r.directory, format.SegmentName(r.last))
}

// add adds an empty segment.
func (r *ring) add(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.segments = append(r.segments, file{path: path})
}

// grow counts what was added to the last segment.
func (r *ring) grow(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.segments[len(r.segments)-1].size += bytes
}

func (r *ring) total() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sum()
}

// sum requires the lock.
func (r *ring) sum() (sum int64) {
	for i := range r.segments {
		sum += r.segments[i].size
	}
	return sum
}

// errFull means that a single segment would be larger than the ring may be.
var errFull = errors.New("the journal is full")

// makeRoom removes the oldest segments so that some more bytes can be written to the last one.
func (r *ring) makeRoom(bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.sum()+bytes > r.most {
		if len(r.segments) < 2 {
			return errFull
		}
		if err := os.Remove(r.segments[0].path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		r.segments = r.segments[1:]
	}
	return nil
}

const (
	// segmentsAtMost is how many segments there are where checkpoints are small.
	segmentsAtMost = 16
	// perCheckpoint is how much larger a segment is than its checkpoint, so that most of what is written are decisions.
	perCheckpoint = 4
)

// limit returns the size at which a segment ends whose checkpoint has a size. There are always two that fit.
func (r *ring) limit(checkpoint int64) int64 {
	return min(max(r.most/segmentsAtMost, perCheckpoint*checkpoint), r.most/2)
}

// lastDecision returns the number of the last decision in the ring; 0 if there is none that can be read.
func (r *ring) lastDecision() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, segment := range slices.Backward(r.segments) {
		from, err := os.Open(segment.path)
		if err != nil {
			continue
		}
		read, err := format.Read(from)
		_ = from.Close() // it was only read
		if err == nil {
			return read.LastNumber()
		}
	}
	return 0
}

// WriteTo implements io.WriterTo: it writes all segments, the oldest first. What is dropped meanwhile is written as
// well, and what is added may be.
func (r *ring) WriteTo(to io.Writer) (written int64, err error) {
	open := r.open()
	defer func() {
		for _, one := range open {
			_ = one.Close() // it was only read
		}
	}()
	for _, one := range open {
		count, err := format.Append(to, one)
		written += count
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// open opens all segments.
func (r *ring) open() (list []*os.File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.segments {
		if one, err := os.Open(r.segments[i].path); err == nil {
			list = append(list, one)
		}
	}
	return list
}
