// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"strings"
)

// Table is a table in Markdown.
type Table struct {
	Header []string
	rows   [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.rows = append(t.rows, cells) }

// Empty reports whether there are no rows.
func (t *Table) Empty() bool { return len(t.rows) == 0 }

// String returns the table in Markdown, the first column left-aligned, the others
// right-aligned.
func (t *Table) String() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.Header)
	b.WriteString("|---|" + strings.Repeat("---:|", len(t.Header)-1) + "\n")
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// Hundredths formats a number for a table.
func Hundredths(number float64) string { return fmt.Sprintf("%.2f", number) }

// Signed formats a difference for a table.
func Signed(number float64) string { return fmt.Sprintf("%+.2f", number) }
