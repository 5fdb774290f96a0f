// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"strings"
	"testing"
	"time"
)

// FuzzCursor reads a log of any lines over a connection that breaks anywhere, and reads again from where
// the cursor says. Lines that bear their time in order come once each, and lines without a time are
// never dropped.
func FuzzCursor(f *testing.F) {
	f.Add("a\nb\nb\nc", uint16(2), uint8(1))
	f.Add("\n\n\n", uint16(1), uint8(0))
	f.Add("x", uint16(9), uint8(7))
	begin := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string, broken uint16, perSecond uint8) {
		var lines []string
		for i, line := range strings.Split(text, "\n") {
			at := begin.Add(time.Duration(i) * time.Second / time.Duration(int(perSecond)%8+1))
			lines = append(lines, at.Format(time.RFC3339Nano)+" "+line)
		}
		cut := int(broken) % (len(lines) + 1)
		c := newCursor(instance{})
		var written []string
		take := func(line string) {
			if c.isNew(line) {
				written = append(written, line)
			}
		}
		c.resume()
		for _, line := range lines[:cut] {
			take(line)
		}
		from := c.resume()
		for _, line := range lines {
			stamp, _, _ := strings.Cut(line, " ")
			if at, err := time.Parse(time.RFC3339Nano, stamp); err != nil || at.Before(from) {
				continue // the server sends none before
			}
			take(line)
		}
		if got, want := strings.Join(written, "\n"), strings.Join(lines, "\n"); got != want {
			t.Errorf("written are\n%s\nwant\n%s", got, want)
		}
		if !c.isNew("no time " + text) {
			t.Error("a line without a time is dropped")
		}
	})
}
