// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"hash/maphash"
	"maps"
	"strings"
	"time"
)

// cursor remembers how far the log of an instance was read, to go on after the connection
// broke. The API server takes that time in whole seconds, so that it sends the lines of the last
// second again: those are known by their hashes.
type cursor struct {
	instance instance
	seed     maphash.Seed
	// second is the last second of which there were lines, and lines counts these by hash.
	second time.Time
	lines  map[uint64]int
	// repeated counts the lines that this connection is still to send again.
	repeated map[uint64]int
	// from is the second from which this connection reads.
	from time.Time
}

func newCursor(of instance) *cursor {
	return &cursor{instance: of, seed: maphash.MakeSeed(), lines: map[uint64]int{}}
}

// resume prepares for another connection, which is to read from the returned time; the zero
// time is the beginning.
func (c *cursor) resume() time.Time {
	c.repeated, c.from = maps.Clone(c.lines), c.second
	return c.from
}

// isNew reports whether a line, with its timestamp in front, was not read before.
func (c *cursor) isNew(line string) bool {
	stamp, _, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return true // nothing is known about it
	}
	hash := maphash.String(c.seed, line)
	if c.repeated[hash] > 0 {
		c.repeated[hash]--
		return false
	}
	second := at.Truncate(time.Second)
	if second.Before(c.from) {
		return false // from a server that does not take the time
	}
	if second.After(c.second) {
		c.second = second
		clear(c.lines)
	}
	if second.Equal(c.second) {
		c.lines[hash]++
	}
	return true
}
