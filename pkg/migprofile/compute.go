// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package migprofile

// ComputeSlices is how many compute slices a GPU in MIG mode is divided into. The few models that
// have four, such as the A30, are counted as if they had seven: the profile alone does not say it.
const ComputeSlices = computeSlices

// Compute returns how many of a GPU's ComputeSlices a slice of a profile has: 2 for "2g.20gb"; 0
// if the text is no profile.
func Compute(profile string) int {
	compute, _, err := parse(profile)
	if err != nil {
		return 0
	}
	return min(compute, ComputeSlices)
}
