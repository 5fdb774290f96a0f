// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"io"
	"regexp"
	"time"
)

// timestamp is a time as the API has it, also within annotations that are JSON themselves.
var timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// shift adds to all times in a text. What is no valid time stays.
func shift(text []byte, by time.Duration) []byte {
	if by == 0 {
		return text
	}
	return timestamp.ReplaceAllFunc(text, func(found []byte) []byte {
		at, err := time.Parse(time.RFC3339Nano, string(found))
		if err != nil {
			return found
		}
		layout := "2006-01-02T15:04:05Z"
		if _, fraction, has := bytes.Cut(found, []byte(".")); has { // with as many digits as before
			layout = "2006-01-02T15:04:05." + string(bytes.Repeat([]byte("0"), len(fraction)-1)) + "Z"
		}
		return []byte(at.Add(by).UTC().Format(layout))
	})
}

// shiftingReader shifts the times in what it reads, line by line: the events of a watch are lines.
type shiftingReader struct {
	io.Closer
	lines   lineReader
	by      time.Duration
	pending []byte
	err     error
}

type lineReader interface {
	ReadBytes(end byte) ([]byte, error)
}

func (r *shiftingReader) Read(p []byte) (int, error) {
	for len(r.pending) == 0 && r.err == nil {
		var line []byte
		line, r.err = r.lines.ReadBytes('\n')
		r.pending = shift(line, r.by)
	}
	if len(r.pending) == 0 {
		return 0, r.err
	}
	n := copy(p, r.pending)
	r.pending = r.pending[n:]
	return n, nil
}
