// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
)

// Rows are rows of JSON by collection and key.
type Rows map[string]map[string]any

// Document is rows, with the version in which each has changed last. It is safe for concurrent use.
type Document struct {
	mu          sync.Mutex
	version     uint64
	collections map[string]*collection
	// changed is closed when there is a new version.
	changed chan struct{}
	// updates are those to the present version, by the version that they start from.
	updates map[uint64][]byte
}

type collection struct {
	rows map[string]*row
	// forgotten is the version up to which deletions have been forgotten.
	forgotten uint64
}

// row is a row, or, without text, what is left of one that was deleted.
type row struct {
	text    json.RawMessage
	version uint64
}

// maxDeleted is how many deleted rows of a collection are remembered: viewers that have not heard of them by then get
// everything anew.
const maxDeleted = 10_000

// NewDocument returns a Document without rows.
func NewDocument() *Document {
	return &Document{collections: map[string]*collection{}, changed: make(chan struct{}), updates: map[uint64][]byte{}}
}

// Replace replaces all rows of the given collections. What is equal to before is no change.
func (d *Document) Replace(rows Rows) error {
	texts := make(map[string]map[string]json.RawMessage, len(rows))
	for name, given := range rows {
		texts[name] = make(map[string]json.RawMessage, len(given))
		for key, value := range given {
			text, err := json.Marshal(value)
			if err != nil {
				return fmt.Errorf("writing %s %q: %w", name, key, err)
			}
			texts[name][key] = text
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next, news := d.version+1, false
	for name, given := range texts {
		c := d.collections[name]
		if c == nil {
			c = &collection{rows: make(map[string]*row, len(given))}
			d.collections[name] = c
		}
		news = c.replace(given, next) || news
	}
	if news {
		d.version = next
		clear(d.updates)
		close(d.changed)
		d.changed = make(chan struct{})
	}
	return nil
}

// replace reports whether anything has changed.
func (c *collection) replace(given map[string]json.RawMessage, version uint64) (news bool) {
	deleted := 0
	for key, old := range c.rows {
		if _, stays := given[key]; stays {
			continue
		}
		if deleted++; old.text != nil {
			old.text, old.version, news = nil, version, true
		}
	}
	for key, text := range given {
		old := c.rows[key]
		if old == nil {
			c.rows[key], news = &row{text: text, version: version}, true
		} else if !bytes.Equal(old.text, text) {
			old.text, old.version, news = text, version, true
		}
	}
	if deleted > maxDeleted {
		c.forgotten = version
		for key, old := range c.rows {
			if old.text == nil {
				delete(c.rows, key)
			}
		}
	}
	return news
}

// Viewer follows a Document. It is for one goroutine.
type Viewer struct {
	document *Document
	// seen is the version that the viewer has; 0 for none.
	seen uint64
}

// NewViewer returns a viewer that has seen nothing yet.
func (d *Document) NewViewer() *Viewer { return &Viewer{document: d} }

// update is what is sent to a viewer.
type update struct {
	Version uint64                                `json:"version"`
	Reset   bool                                  `json:"reset,omitempty"`
	Set     map[string]map[string]json.RawMessage `json:"set,omitempty"`
	Remove  map[string][]string                   `json:"remove,omitempty"`
}

// Next waits until there is something that the viewer has not seen, and returns it as JSON: at first, everything. It
// fails when ctx ends.
func (v *Viewer) Next(ctx context.Context) ([]byte, error) {
	d := v.document
	for {
		d.mu.Lock()
		if d.version > v.seen {
			text, err := d.since(v.seen)
			v.seen = d.version
			d.mu.Unlock()
			return text, err
		}
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		}
	}
}

// since returns what has changed after a version, or everything if that is not known any more. It requires the lock.
func (d *Document) since(seen uint64) ([]byte, error) {
	everything := seen == 0
	for _, c := range d.collections {
		everything = everything || c.forgotten > seen
	}
	if everything {
		seen = 0
	}
	if text := d.updates[seen]; text != nil {
		return text, nil
	}
	u := update{Version: d.version, Reset: everything, Set: map[string]map[string]json.RawMessage{}, Remove: map[string][]string{}}
	for name, c := range d.collections {
		for key, one := range c.rows {
			switch {
			case one.version <= seen:
			case one.text == nil && !everything:
				u.Remove[name] = append(u.Remove[name], key)
			case one.text != nil:
				if u.Set[name] == nil {
					u.Set[name] = map[string]json.RawMessage{}
				}
				u.Set[name][key] = one.text
			}
		}
	}
	text, err := json.Marshal(u)
	if err != nil {
		return nil, fmt.Errorf("writing the changes since version %s: %w", strconv.FormatUint(seen, 10), err)
	}
	d.updates[seen] = text
	return text, nil
}
