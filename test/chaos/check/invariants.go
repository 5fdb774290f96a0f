// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

// Invariants returns the names of all invariants.
func Invariants() []string {
	return []string{
		InvariantCards, InvariantGangs, InvariantInfeasible, InvariantAttempts, InvariantFailures, InvariantOthers, InvariantRunning, InvariantGuarded,
		InvariantReserved, InvariantMayMove, InvariantBudget, InvariantMovesCounted, InvariantWaits, InvariantLeftovers, InvariantConvergence,
		InvariantLost, InvariantAgents, InvariantProcesses, InvariantQueues, InvariantCurrent, InvariantWoken, InvariantStarts,
	}
}
