// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import "falldio.github.io/gpu-controller/pkg/placement"

// DotProd prefers nodes whose free resources resemble the request least: the dot product
// of the vectors of CPU and GPUs (after Tetris, SIGCOMM 2014, with the sign that the
// trace's authors give it). A share gets the fullest card that it fits on.
type DotProd struct{ fixed }

var _ Score = DotProd{}

// Score implements Score.
func (DotProd) Score(step placement.Step) int {
	cpu := float64(step.Request.CPU) / largestCPU * float64(step.Before.CPU()) / largestCPU
	gpu := float64(step.Request.Percent()) / largestPercent * float64(step.Before.Percent()) / largestPercent
	return int(100 * (1 - (cpu+gpu)/2))
}
