// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// columnGap is the space between columns, as in kubectl.
const columnGap = 3

// Cell is one field of a table.
type Cell struct {
	Text  string
	Style Style
}

// table is a heading with rows. Escape sequences don't count towards the widths of its
// columns.
type table struct {
	heading []string
	rows    [][]Cell
	// widths are those of the columns so far, for a table that is written in parts.
	widths []int
	// headless is true if the heading is not wanted or has been written.
	headless bool
	// indent precedes each line.
	indent string
}

func newTable(heading ...string) *table { return &table{heading: heading} }

// add appends a row of values, or Cells for styled text.
func (t *table) add(fields ...any) {
	row := make([]Cell, len(fields))
	for i, field := range fields {
		switch field := field.(type) {
		case Cell:
			row[i] = field
		default:
			row[i] = Cell{Text: fmt.Sprint(field)}
		}
	}
	t.rows = append(t.rows, row)
}

// drop drops the column with a title.
func (t *table) drop(title string) {
	column := slices.Index(t.heading, title)
	if column < 0 {
		return
	}
	t.heading = slices.Delete(t.heading, column, column+1)
	for i := range t.rows {
		t.rows[i] = slices.Delete(t.rows[i], column, column+1)
	}
}

// dropUniform drops the column with a title if all rows have the same text there.
func (t *table) dropUniform(title, text string) {
	column := slices.Index(t.heading, title)
	if column >= 0 && !slices.ContainsFunc(t.rows, func(row []Cell) bool { return row[column].Text != text }) {
		t.drop(title)
	}
}

// atLeast has a column take a width even if its texts so far are shorter.
func (t *table) atLeast(title string, width int) {
	if t.widths == nil {
		t.widths = make([]int, len(t.heading))
	}
	if column := slices.Index(t.heading, title); column >= 0 {
		t.widths[column] = width
	}
}

// section writes the table, indented, below a title; "<none>" if it has no rows.
func (t *table) section(p *Page, title string) {
	p.Title(title)
	if len(t.rows) == 0 {
		p.Printf("  <none>\n")
		return
	}
	t.indent = "  "
	t.write(p)
}

// sectionIfAny writes a section, but nothing if the table has no rows.
func (t *table) sectionIfAny(p *Page, title string) {
	if len(t.rows) > 0 {
		t.section(p, title)
	}
}

// write writes the rows added since the last time, below the heading the first time. The last
// column is truncated to the page's width, if that is known.
func (t *table) write(p *Page) {
	if t.widths == nil {
		t.widths = make([]int, len(t.heading))
	}
	heading := make([]Cell, len(t.heading))
	for i, title := range t.heading {
		heading[i] = Cell{Text: title}
		if !t.headless {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(title))
		}
		for _, row := range t.rows {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(row[i].Text))
		}
	}
	if !t.headless {
		t.line(p, heading, t.widths)
	}
	for _, row := range t.rows {
		t.line(p, row, t.widths)
	}
	t.rows, t.headless = nil, true
}

func (t *table) line(p *Page, row []Cell, widths []int) {
	var line strings.Builder
	line.WriteString(t.indent)
	used := len(t.indent)
	for i, cell := range row {
		last := i == len(row)-1
		text := cell.Text
		if last && p.Width > used {
			text = truncate(text, p.Width-used)
		}
		line.WriteString(p.Paint(cell.Style, text))
		if !last {
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text)+columnGap))
			used += widths[i] + columnGap
		}
	}
	p.Printf("%s\n", strings.TrimRight(line.String(), " "))
}

// pairs is a list of names and values, written one per line.
type pairs struct {
	names  []string
	values []string
}

func (f *pairs) add(name, value string) {
	f.names = append(f.names, name)
	f.values = append(f.values, value)
}

// addIf adds a pair unless its value is empty.
func (f *pairs) addIf(name, value string) {
	if value != "" {
		f.add(name, value)
	}
}

func (f *pairs) write(p *Page) {
	width := 0
	for _, name := range f.names {
		width = max(width, utf8.RuneCountInString(name))
	}
	for i, name := range f.names {
		gap := strings.Repeat(" ", width-utf8.RuneCountInString(name)+2)
		p.Printf("%s%s%s\n", p.Paint(Faint, name+":"), gap, f.values[i])
	}
}
