// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// record is a line of the log: where a Pod went.
type record struct {
	Pod string `json:"pod"`
	// Node is empty if the Pod fits nowhere.
	Node string `json:"node"`
	GPUs []int  `json:"gpus"`
	// Percent is how much of each of the GPUs, 0 without any.
	Percent int `json:"percent"`
}

// newRecord returns the record of a place; the zero Place is none.
func newRecord(p *dataset.Pod, place *placement.Place, name func(string) string) record {
	r := record{Pod: p.Name, Node: name(place.Node), GPUs: place.GPUs, Percent: place.Percent}
	if r.GPUs == nil {
		r.GPUs = []int{} // JSON has [], not null
	}
	return r
}

// writeLog writes records as JSON lines.
func writeLog(into io.Writer, records []record) error {
	buffered := bufio.NewWriter(into)
	encoder := json.NewEncoder(buffered)
	for i := range records {
		if err := encoder.Encode(&records[i]); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// openLog returns a file to write to, or a writer that discards everything if there is no
// path.
func openLog(path string) (io.WriteCloser, error) {
	if path == "" {
		return nopCloser{io.Discard}, nil
	}
	return os.Create(path) //nolint:gosec // the user names the file
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// closing joins the error of closing a file to that of writing it.
func closing(file io.Closer, err *error) { *err = errors.Join(*err, file.Close()) }
