// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import "time"

// Mode says how tasks are rescheduled.
type Mode string

// The modes.
const (
	// Consolidate moves as few Pods as possible, to places that are planned in advance.
	Consolidate Mode = "consolidate"
	// Recreate stops one task after the other and lets the scheduler reschedule it.
	Recreate Mode = "recreate"
)

// Options are the settings for moves.
type Options struct {
	Mode Mode
	// Namespace restricts moves to tasks of one namespace; empty for all.
	Namespace string
	// Patience is how long a task must have waited before others move for it.
	Patience time.Duration
	// Threshold is the part of a node's GPUs, 0 to 1, up to which Pods are moved away to
	// give the node back.
	Threshold float64
	// MinGain is how many GPUs must be given back for each GPU-hour of cost.
	MinGain float64
	// ApproveCost is the cost, in GPU-seconds, up to which plans are approved
	// automatically.
	ApproveCost int64
	// ApproveForOthers is true if plans that move Pods of one namespace for a task of another
	// need a person's approval only for their cost.
	ApproveForOthers bool
	// MaxMoves is how many Pods a plan may move; 0 is no limit.
	MaxMoves int
	// MovesPerHour is how many Pods may be moved in an hour, GPUMinutesPerHour how
	// much work of one namespace may be lost in an hour; 0 is no limit.
	MovesPerHour      int
	GPUMinutesPerHour int64
	// Cooldown is how long a task is not moved again after a move.
	Cooldown time.Duration
	// Unhealthy is true if tasks are moved off GPUs that have not been healthy for
	// UnhealthyAfter.
	Unhealthy      bool
	UnhealthyAfter time.Duration
	// Backoff is how long nothing is proposed for the same purpose after a plan was
	// aborted. It doubles with each such plan in a row, up to MaxBackoff.
	Backoff time.Duration
	// Searches remembers earlier calls; nil for none.
	Searches *Searches
}

// perMove is what each move costs besides lost work, in GPU-seconds: images are pulled, and programs load their data.
const perMove = 60

// MaxBackoff bounds Options.Backoff.
const MaxBackoff = time.Hour

// DefaultOptions returns the defaults of the controller's flags.
func DefaultOptions() Options {
	return Options{
		Mode:              Consolidate,
		Patience:          30 * time.Second,
		Threshold:         0.5,
		MinGain:           1,
		ApproveCost:       4 * 3600,
		MaxMoves:          16,
		MovesPerHour:      120,
		GPUMinutesPerHour: 600,
		Cooldown:          10 * time.Minute,
		UnhealthyAfter:    time.Minute,
		Backoff:           time.Minute,
	}
}
