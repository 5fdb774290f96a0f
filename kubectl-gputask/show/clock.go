// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"regexp"
	"time"
)

// Times are shown in the zone of the page's Now. The sentences for a browser have them in RFC 3339, and it shows
// them in the zone of its own reader.

// timeOfDay formats a time of today as "15:04", and others with their date.
func (p *Page) timeOfDay(at time.Time) string {
	at = at.In(p.Now.Location())
	switch {
	case p.forPrograms:
		return at.UTC().Format(time.RFC3339)
	case at.Format(time.DateOnly) == p.Now.Format(time.DateOnly):
		return at.Format("15:04")
	default:
		return at.Format("2006-01-02 15:04")
	}
}

// zone returns what follows a time in sentences: " CET", or " CEST" for one in summer.
func (p *Page) zone(at time.Time) string {
	if p.forPrograms {
		return ""
	}
	return at.In(p.Now.Location()).Format(" MST")
}

// minute and second format times with date and zone: "2006-01-02 15:04 CET", "2006-01-02 15:04:05 CET".
func (p *Page) minute(at time.Time) string { return p.format(at, "2006-01-02 15:04 MST") }
func (p *Page) second(at time.Time) string { return p.format(at, "2006-01-02 15:04:05 MST") }

func (p *Page) format(at time.Time, layout string) string {
	if p.forPrograms {
		return at.UTC().Format(time.RFC3339)
	}
	return at.In(p.Now.Location()).Format(layout)
}

// inMessages are the times in messages of the cluster, which are in RFC 3339 and UTC.
var inMessages = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// message returns a message of the cluster in one line, with its times as the page shows them.
func (p *Page) message(text string) string {
	if p.forPrograms {
		return oneLine(text)
	}
	return inMessages.ReplaceAllStringFunc(oneLine(text), func(found string) string {
		at, err := time.Parse(time.RFC3339, found)
		if err != nil {
			return found
		}
		return p.timeOfDay(at) + p.zone(at)
	})
}
