// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// harmless replaces what a terminal would carry out instead of showing it, except for our own styles: texts of the
// cluster may be anybody's. ESC, CR and backspace are shown as kubectl shows them.
var harmless = strings.NewReplacer(slices.Concat(ownStyles(), []string{"\x1b", "^[", "\r", `\r`, "\b", `\b`}, controls())...)

// controls returns pairs that show the other control characters by their numbers: the one-character forms of escape
// sequences (C1) among them, and what changes the direction of a text.
func controls() []string {
	var pairs []string
	add := func(first, last rune) {
		for c := first; c <= last; c++ {
			if c != '\n' && c != '\t' {
				pairs = append(pairs, string(c), fmt.Sprintf(`\u%04x`, c))
			}
		}
	}
	add('\u0000', '\u001f')
	add('\u007f', '\u009f')
	add('\u202a', '\u202e')
	add('\u2066', '\u2069')
	return pairs
}

// ownStyles returns pairs that leave the sequences of Paint as they are. A Replacer prefers the pairs that come first.
func ownStyles() []string {
	var pairs []string
	for _, style := range []Style{"0", Bold, Faint, Red, Green, Yellow, Blue, Purple} {
		sequence := "\x1b[" + string(style) + "m"
		pairs = append(pairs, sequence, sequence)
	}
	return pairs
}

// Harmless returns a text that a terminal only shows.
func Harmless(text string) string { return harmless.Replace(text) }

// Safe returns a writer of text for a terminal that shows the escape sequences of others instead of having them carried
// out. A sequence of our own must not be split between two writes.
func Safe(to io.Writer) io.Writer { return safeWriter{to} }

type safeWriter struct{ to io.Writer }

func (s safeWriter) Write(text []byte) (int, error) {
	if _, err := harmless.WriteString(s.to, string(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}
