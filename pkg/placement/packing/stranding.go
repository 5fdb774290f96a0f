// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// stranded returns how many free GPUs of a node lack CPU. A free GPU needs a fraction,
// Tightness, of the average CPU per GPU; the shortage sets in gently, so that a node is
// spared before it is too late.
func (p *Policy) stranded(s *placement.State) float64 {
	each := p.parameters.Tightness * p.learned.cpuPerPercent
	if each == 0 {
		return 0
	}
	need := each * float64(s.Percent())
	smoothing := p.parameters.Smoothing * p.learned.cpuPerPercent * placement.Card
	missing := softplus(need-float64(s.CPU()), smoothing)
	return min(need, missing) / each / placement.Card
}

// softplus is max(0, x), rounded off over a width.
func softplus(x, width float64) float64 {
	const far = 30 // where the rounding is below the precision
	if x >= far*width {
		return max(0, x)
	}
	return width * math.Log1p(math.Exp(x/width))
}
