// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package show writes the results of the commands as human-readable text. It is pure:
// the same data gives the same text, so that golden files can test every output.
package show

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Style is how text looks on a terminal.
type Style string

// The styles, as ANSI escape sequences.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Faint  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Blue   Style = "34"
	Purple Style = "35"
)

// Page is a writer with its formatting options.
type Page struct {
	io.Writer
	// Colours is true on a terminal.
	Colours bool
	// Width is how many characters fit in a line; 0 if that is unknown.
	Width int
	// Now is the time relative to which ages are shown, in the zone in which times are.
	Now time.Time
	// forPrograms is true for texts that a program shows: their times are in RFC 3339.
	forPrograms bool
}

// Paint returns text in a style.
func (p *Page) Paint(style Style, text string) string {
	if !p.Colours || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

// Printf writes text.
func (p *Page) Printf(format string, values ...any) { fmt.Fprintf(p, format, values...) }

// Title writes the heading of a section.
func (p *Page) Title(text string) { p.Printf("\n%s\n", p.Paint(Bold, text)) }

// Age returns how long ago a time was, formatted as kubectl does.
func (p *Page) Age(since time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(p.Now.Sub(since))
}

// span formats a duration as kubectl does.
func span(length time.Duration) string { return duration.HumanDuration(length) }

// gpus formats an amount of GPUs, given in percent of one.
func gpus(percent int) string {
	if percent%100 == 0 {
		return fmt.Sprint(percent / 100)
	}
	return fmt.Sprintf("%.2f", float64(percent)/100)
}

// abbreviate joins the first few names and counts the others.
func abbreviate(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// truncate shortens text to a number of characters.
func truncate(text string, most int) string {
	if most < 2 || utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// orNone returns "<none>" for an empty text.
func orNone(text string) string { return cmp.Or(text, "<none>") }
