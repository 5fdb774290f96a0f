// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import "falldio.github.io/gpu-controller/pkg/placement"

// The largest node of the published cluster, which scores are relative to.
const (
	largestCPU     = 128000             // milli-cores
	largestPercent = 8 * placement.Card // percent of a GPU
)

// BestFit prefers nodes that have little left afterwards, with CPU and GPUs weighted
// equally. A share gets the fullest card that it fits on.
type BestFit struct{ fixed }

var _ Score = BestFit{}

// Score implements Score.
func (BestFit) Score(step placement.Step) int {
	left := 0.5*float64(step.After.CPU())/largestCPU + 0.5*float64(step.After.Percent())/largestPercent
	return int(100 * (1 - left))
}
