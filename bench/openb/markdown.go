// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// markdown is a table.
type markdown struct {
	header []string
	rows   [][]string
}

func (m *markdown) add(cells ...string) { m.rows = append(m.rows, cells) }

// String returns the table, its first column to the left, the others to the right.
func (m *markdown) String() string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(m.header)
	b.WriteString("|---|" + strings.Repeat("---:|", len(m.header)-1) + "\n")
	for _, row := range m.rows {
		line(row)
	}
	return b.String()
}

// hundredths and signed write a number for a table.
func hundredths(number float64) string { return fmt.Sprintf("%.2f", number) }
func signed(number float64) string     { return fmt.Sprintf("%+.2f", number) }
