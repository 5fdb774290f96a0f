// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

// program is a linear program: maximise the value of columns x ≥ 0 that use no more of
// each row than its limit.
type program struct {
	limits  []float64
	columns [][]entry
	values  []float64
}

type entry struct {
	row    int
	amount float64
}

func (p *program) add(value float64, entries []entry) {
	p.values = append(p.values, value)
	p.columns = append(p.columns, entries)
}
