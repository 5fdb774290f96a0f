// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Header says how a history came about.
type Header struct {
	Seed     uint64 `json:"seed"`
	Duration string `json:"duration"`
	// MovesPerHour is --reschedule-moves-per-hour of the campaign.
	MovesPerHour int `json:"movesPerHour"`
	// Command replays the campaign.
	Command string `json:"command"`
}

// maxLine bounds one entry: an object has at most 1.5 MiB in etcd, and JSON is longer than protobuf.
const maxLine = 16 << 20

// Writer writes a history as compressed lines of JSON: the header, then the entries.
type Writer struct {
	zip     *gzip.Writer
	encoder *json.Encoder
}

// NewWriter writes the header.
func NewWriter(out io.Writer, header Header) (*Writer, error) {
	zip := gzip.NewWriter(out)
	w := &Writer{zip: zip, encoder: json.NewEncoder(zip)}
	return w, w.encoder.Encode(header)
}

// Write appends an entry.
func (w *Writer) Write(entry *Entry) error { return w.encoder.Encode(entry) }

// Close completes the history; it does not close what it is written to.
func (w *Writer) Close() error { return w.zip.Close() }

// Read reads a history. What a campaign that was killed has left is read as far as it goes.
func Read(in io.Reader) (header Header, entries []Entry, err error) {
	zip, err := gzip.NewReader(in)
	if err != nil {
		return header, nil, fmt.Errorf("reading the history: %w", err)
	}
	lines := bufio.NewScanner(zip)
	lines.Buffer(nil, maxLine)
	if lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &header); err != nil {
			return header, nil, fmt.Errorf("reading the history's header: %w", err)
		}
	}
	for lines.Scan() {
		entry := Entry{}
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			if !lines.Scan() && errors.Is(lines.Err(), io.ErrUnexpectedEOF) {
				return header, entries, nil // it breaks off within this line
			}
			return header, entries, fmt.Errorf("reading entry %d of the history: %w", len(entries), err)
		}
		entries = append(entries, entry)
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return header, entries, fmt.Errorf("reading the history: %w", err)
	}
	return header, entries, nil
}
