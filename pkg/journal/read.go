// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Journal is a journal that was read.
type Journal struct {
	segments  []*segment
	decisions []Decision
	// torn are the numbers of lines that were not written to the end, unreadable is how many segments have no complete
	// checkpoint, and lost how many decisions are missing between others.
	torn             []int
	unreadable, lost int
}

// segment is what follows a checkpoint.
type segment struct {
	*Checkpoint
	nodes   []*Node
	pods    []*Pod
	changes []*Line
	// last is the number of its last change, or of the last one before one that is missing.
	last uint64
}

// close sets what is known once all lines are there.
func (s *segment) close() {
	s.last = s.Changes
	for _, line := range s.changes {
		if line.N != s.last+1 {
			return
		}
		s.last++
	}
}

// ErrEmpty is returned for a journal that has not begun yet: its first checkpoint is missing, or not complete.
var ErrEmpty = errors.New("there is no checkpoint: it is not a journal of gpu-scheduler, or an empty one")

// maxLine is more than the longest line.
const maxLine = 64 << 20

// Read reads a journal: the segments of a scheduler in their order, with lines at their ends that may be torn. An error
// names the line that is not to be understood.
func Read(from io.Reader) (*Journal, error) {
	r := &reader{journal: &Journal{}}
	lines := bufio.NewReaderSize(from, 1<<16)
	for {
		text, err := readLine(lines)
		if len(text) > 0 {
			if err := r.line(text); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", r.number+1, err)
		}
	}
	r.end()
	switch {
	case len(r.journal.segments) > 0:
	case r.number == 0 || r.journal.unreadable > 0:
		return nil, ErrEmpty
	default:
		return nil, errors.New("there is no checkpoint: it is not a journal of gpu-scheduler")
	}
	r.journal.finish()
	return r.journal, nil
}

func readLine(lines *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := lines.ReadSlice('\n')
		text = append(text, part...)
		if len(text) > maxLine {
			return nil, fmt.Errorf("is longer than %d MiB", maxLine>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}

// reader reads a journal line by line.
type reader struct {
	journal *Journal
	number  int
	// open is the segment that is being read; nil before the first.
	open *segment
	// wrong is a line that can't be read: a torn one if a segment ends there.
	wrong error
}

func (r *reader) line(text []byte) error {
	r.number++
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil
	}
	line := &Line{}
	if err := json.Unmarshal(text, line); err != nil {
		if r.wrong != nil {
			return r.wrong
		}
		r.wrong = fmt.Errorf("line %d: %w", r.number, err)
		r.journal.torn = append(r.journal.torn, r.number)
		return nil
	}
	if line.Checkpoint != nil {
		return r.begin(line.Checkpoint)
	}
	if r.wrong != nil {
		return r.wrong
	}
	if r.open == nil {
		return nil // of a segment whose beginning is missing
	}
	return r.add(line)
}

// add adds a line to the open segment.
func (r *reader) add(line *Line) error {
	switch {
	case line.Decision != nil:
		if err := line.Decision.validate(); err != nil {
			return fmt.Errorf("line %d: decision: %w", r.number, err)
		}
		r.journal.decisions = append(r.journal.decisions, *line.Decision)
	case line.N == 0 && line.Node != nil:
		r.open.nodes = append(r.open.nodes, line.Node)
	case line.N == 0 && line.Pod != nil:
		r.open.pods = append(r.open.pods, line.Pod)
	case line.isChange():
		r.open.changes = append(r.open.changes, line)
	default:
		return fmt.Errorf("line %d: is none of checkpoint, node, gone, pod, left, learned and decision", r.number)
	}
	return nil
}

// isChange reports whether a line is a change of the cluster.
func (l *Line) isChange() bool {
	return l.Node != nil || l.Gone != "" || l.Pod != nil || l.Left != "" || l.Learned != nil && l.Learned.Shape != nil
}

func (r *reader) begin(c *Checkpoint) error {
	r.end()
	if c.Version != Version {
		return fmt.Errorf("line %d: checkpoint: version: is %d, and this program reads version %d only", r.number, c.Version, Version)
	}
	r.open = &segment{Checkpoint: c}
	return nil
}

// end ends the open segment.
func (r *reader) end() {
	r.wrong = nil
	if r.open == nil {
		return
	}
	if s := r.open; len(s.nodes) == s.Nodes && len(s.pods) == s.Pods {
		s.close()
		r.journal.segments = append(r.journal.segments, s)
	} else {
		r.journal.unreadable++
	}
}

// finish sorts the decisions and counts those that are missing.
func (j *Journal) finish() {
	slices.SortStableFunc(j.decisions, func(a, b Decision) int { return cmp.Compare(a.Number, b.Number) })
	j.decisions = slices.CompactFunc(j.decisions, func(a, b Decision) bool { return a.Number == b.Number })
	for i := 1; i < len(j.decisions); i++ {
		j.lost += j.decisions[i].Number - j.decisions[i-1].Number - 1
	}
}

// Decisions returns the decisions in order. They must not be changed.
func (j *Journal) Decisions() []Decision { return j.decisions }

// Decision returns a decision by its number.
func (j *Journal) Decision(number int) (*Decision, error) {
	at, found := slices.BinarySearchFunc(j.decisions, number, func(d Decision, number int) int { return cmp.Compare(d.Number, number) })
	switch {
	case found:
		return &j.decisions[at], nil
	case len(j.decisions) == 0:
		return nil, errors.New("the journal has no decisions")
	default:
		return nil, fmt.Errorf("the journal has no decision %d: it has %d to %d", number, j.decisions[0].Number, j.decisions[len(j.decisions)-1].Number)
	}
}

// LastNumber returns the number of the last decision, also of one before the journal begins.
func (j *Journal) LastNumber() int {
	last := j.segments[len(j.segments)-1].Decisions
	if len(j.decisions) > 0 {
		last = max(last, j.decisions[len(j.decisions)-1].Number)
	}
	return last
}

// Lost returns how many decisions are missing between others, because the journal could not keep up or a part was lost.
func (j *Journal) Lost() int { return j.lost }

// Torn returns the numbers of the lines that were not written to the end.
func (j *Journal) Torn() []int { return j.torn }

// Checkpoints returns how many segments can be read.
func (j *Journal) Checkpoints() int { return len(j.segments) }

// Levels returns the names of the levels of topology, the widest first.
func (j *Journal) Levels() []string { return j.segments[len(j.segments)-1].Levels }

// of returns the segment that has the cluster before a decision. A decision may be written after the checkpoint that
// follows it, so that it is not always the segment with the decision's line.
func (j *Journal) of(d *Decision) (*segment, error) {
	for _, s := range slices.Backward(j.segments) {
		if s.Run != d.Run || s.Changes > d.After {
			continue
		}
		if s.last < d.After {
			return nil, fmt.Errorf("the changes of the cluster between change %d and the decision, after change %d, are not in the journal", s.last, d.After)
		}
		return s, nil
	}
	return nil, errors.New("the part of the journal that it belongs to is missing")
}
