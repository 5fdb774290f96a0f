// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"io"
	"os"
)

// tailWindow limits how much of a log's end Tail reads.
const tailWindow = 64 << 10

// Tail returns the last lines of a log.
func Tail(path string, lines int) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the caller chose it
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-tailWindow), tailWindow))
	if err != nil {
		return "", err
	}
	all := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))), nil
}
