// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"
)

const (
	precision = 1e-8
	// enough is the precision that suffices if rounding stops the method: bounds do not
	// depend on it.
	enough = 1e-4
	steps  = 100
	// damping keeps an iterate in the interior.
	damping = 0.995
	ridge   = 1e-13
)

var errStuck = errors.New("the interior-point method does not converge")

// solve returns the value of the best solution and the price of each row.
func (p *program) solve() (float64, []float64, error) {
	s := newIterate(p)
	var err error
	for range steps {
		s.residuals()
		if s.good() {
			break
		}
		if err = s.step(); err != nil {
			break
		}
	}
	if s.gap() > enough {
		return 0, nil, errors.Join(errStuck, err)
	}
	return s.objective(), s.prices(), nil
}

// iterate is a point of the method of Mehrotra ("On the implementation of a
// primal-dual interior point method", 1992), on min cx with Ax = b and x ≥ 0,
// where each row has a slack column and is scaled to a limit of 1.
type iterate struct {
	columns [][]entry
	c       []float64
	x       []float64 // of the columns
	y       []float64 // of the rows
	z       []float64 // reduced costs of the columns
	primal  []float64 // what is missing of b
	dual    []float64 // what is missing of c
	scale   []float64 // of the rows
	normal  *mat.SymDense
	factor  mat.Cholesky
}

func newIterate(p *program) *iterate {
	rows, n := len(p.limits), len(p.columns)+len(p.limits)
	s := &iterate{
		c: make([]float64, n), x: make([]float64, n), z: make([]float64, n), dual: make([]float64, n),
		y: make([]float64, rows), primal: make([]float64, rows), scale: make([]float64, rows), normal: mat.NewSymDense(rows, nil),
	}
	for row, limit := range p.limits {
		s.scale[row] = 1 / max(limit, precision)
	}
	for j, entries := range p.columns {
		scaled := make([]entry, len(entries))
		for i, e := range entries {
			scaled[i] = entry{row: e.row, amount: e.amount * s.scale[e.row]}
		}
		s.columns = append(s.columns, scaled)
		s.c[j] = -p.values[j]
	}
	for row := range rows {
		s.columns = append(s.columns, []entry{{row: row, amount: 1}})
	}
	for j := range s.x { // far from every edge
		s.x[j], s.z[j] = 1, 1+math.Abs(s.c[j])
	}
	return s
}

// residuals computes how far the point is from being feasible.
func (s *iterate) residuals() {
	for row := range s.primal {
		s.primal[row] = 1
	}
	for j, entries := range s.columns {
		s.dual[j] = s.c[j] - s.z[j]
		for _, e := range entries {
			s.primal[e.row] -= e.amount * s.x[j]
			s.dual[j] -= e.amount * s.y[e.row]
		}
	}
}

func (s *iterate) objective() float64 {
	sum := 0.0
	for j := range s.x {
		sum -= s.c[j] * s.x[j]
	}
	return sum
}

// complementarity is the average of x times z.
func (s *iterate) complementarity() float64 {
	sum := 0.0
	for j := range s.x {
		sum += s.x[j] * s.z[j]
	}
	return sum / float64(len(s.x))
}

func (s *iterate) gap() float64 {
	return s.complementarity() * float64(len(s.x)) / (1 + math.Abs(s.objective()))
}

func (s *iterate) good() bool {
	return s.gap() < precision && largest(s.primal) < precision && largest(s.dual) < precision*(1+largest(s.c))
}

func largest(list []float64) float64 {
	result := 0.0
	for _, number := range list {
		result = max(result, math.Abs(number))
	}
	return result
}

// prices returns those of the rows before scaling, none negative.
func (s *iterate) prices() []float64 {
	list := make([]float64, len(s.y))
	for row := range list {
		list[row] = max(0, -s.y[row]*s.scale[row])
	}
	return list
}

// step moves the point: a predictor direction to the optimum determines the centering,
// and a second one corrects the error of the first one.
func (s *iterate) step() error {
	if err := s.factorize(); err != nil {
		return err
	}
	target := make([]float64, len(s.x))
	for j := range target {
		target[j] = -s.x[j] * s.z[j]
	}
	dx, _, dz, err := s.direction(target)
	if err != nil {
		return err
	}
	mean := s.complementarity()
	ahead := 0.0
	px, pz := room(s.x, dx, 1), room(s.z, dz, 1)
	for j := range s.x {
		ahead += (s.x[j] + px*dx[j]) * (s.z[j] + pz*dz[j])
	}
	ahead /= float64(len(s.x))
	center := ahead * (ahead / mean) * (ahead / mean)
	for j := range target {
		target[j] = center - s.x[j]*s.z[j] - dx[j]*dz[j]
	}
	dx, dy, dz, err := s.direction(target)
	if err != nil {
		return err
	}
	px, pz = room(s.x, dx, damping), room(s.z, dz, damping)
	for j := range s.x {
		s.x[j] += px * dx[j]
		s.z[j] += pz * dz[j]
	}
	for row := range s.y {
		s.y[row] += pz * dy[row]
	}
	return nil
}

// room returns the largest step until a number becomes negative, at most 1.
func room(from, direction []float64, damping float64) float64 {
	length := 1.0
	for j, d := range direction {
		if d < 0 {
			length = min(length, -damping*from[j]/d)
		}
	}
	return length
}

// factorize prepares the normal equations A·X/Z·Aᵀ.
func (s *iterate) factorize() error {
	s.normal.Zero()
	raw := s.normal.RawSymmetric()
	for j, entries := range s.columns {
		weight := s.x[j] / s.z[j]
		for _, a := range entries {
			for _, b := range entries {
				if a.row <= b.row {
					raw.Data[a.row*raw.Stride+b.row] += weight * a.amount * b.amount
				}
			}
		}
	}
	for row := range s.y { // rounding must not make it singular
		raw.Data[row*raw.Stride+row] *= 1 + ridge
	}
	if !s.factor.Factorize(s.normal) {
		return errors.New("the normal equations are singular")
	}
	return nil
}

// direction solves for a step after which x times z equals the target.
func (s *iterate) direction(target []float64) (dx, dy, dz []float64, err error) {
	right := mat.NewVecDense(len(s.y), nil)
	for row, missing := range s.primal {
		right.SetVec(row, missing)
	}
	for j, entries := range s.columns {
		rest := (s.x[j]*s.dual[j] - target[j]) / s.z[j]
		for _, e := range entries {
			right.SetVec(e.row, right.AtVec(e.row)+e.amount*rest)
		}
	}
	var solution mat.VecDense
	if err := s.factor.SolveVecTo(&solution, right); err != nil {
		var condition mat.Condition
		if !errors.As(err, &condition) {
			return nil, nil, nil, err
		}
	}
	dy = solution.RawVector().Data
	dx, dz = make([]float64, len(s.x)), make([]float64, len(s.x))
	for j, entries := range s.columns {
		dz[j] = s.dual[j]
		for _, e := range entries {
			dz[j] -= e.amount * dy[e.row]
		}
		dx[j] = (target[j] - s.x[j]*dz[j]) / s.z[j]
	}
	return dx, dy, dz, nil
}
