// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	segmentPrefix = "journal-"
	segmentSuffix = ".jsonl"
)

// SegmentName returns the name of the file with a segment. The names are in the order of the numbers.
func SegmentName(number uint64) string {
	return fmt.Sprintf("%s%012d%s", segmentPrefix, number, segmentSuffix)
}

// SegmentNumber returns the number in the name of the file with a segment.
func SegmentNumber(name string) (number uint64, isSegment bool) {
	text, found := strings.CutPrefix(name, segmentPrefix)
	text, ends := strings.CutSuffix(text, segmentSuffix)
	number, err := strconv.ParseUint(text, 10, 64)
	// Another name with the same number is not the one that SegmentName leads back to.
	return number, found && ends && err == nil && SegmentName(number) == name
}

// Append writes a segment after others. If its last line is torn, it is ended, so that it does not spoil the first one
// of the next segment.
func Append(to io.Writer, segment io.Reader) (written int64, err error) {
	lines := &lineWriter{to: to}
	if written, err = io.Copy(lines, segment); err != nil || !lines.inner {
		return written, err
	}
	_, err = io.WriteString(to, "\n")
	return written + 1, err
}

// lineWriter knows whether the last line has ended.
type lineWriter struct {
	to    io.Writer
	inner bool
}

// Write implements io.Writer.
func (l *lineWriter) Write(text []byte) (int, error) {
	if len(text) > 0 {
		l.inner = !bytes.HasSuffix(text, []byte("\n"))
	}
	return l.to.Write(text)
}
