// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"time"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/pkg/reschedule"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Options are the flags about rescheduling.
type Options struct {
	// Period is how often moves are planned; 0 disables rescheduling.
	Period time.Duration
	// Planner has the settings of the planner; its namespace is set by New.
	Planner reschedule.Options
	// MoveTimeout is how long the Pods of a turn may take to run again.
	MoveTimeout time.Duration
	Levels      snapshot.Levels
}

// DefaultOptions returns the flags' defaults: rescheduling is disabled.
func DefaultOptions() Options {
	return Options{
		Planner: reschedule.DefaultOptions(), MoveTimeout: 2 * time.Minute, Levels: snapshot.DefaultLevels(),
	}
}

// AddFlags adds the flags that set the options.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	p := &o.Planner
	flags.DurationVar(&o.Period, "reschedule-period", o.Period,
		"how often to look for Pods to move: to make room for waiting tasks, and off nodes that are cordoned or no longer have the task's GPU model; 0 means never")
	flags.StringVar((*string)(&p.Mode), "reschedule-mode", string(p.Mode),
		"consolidate moves as few Pods as possible to planned and reserved places; recreate stops one task after the other and lets the scheduler place it again")
	flags.DurationVar(&p.Patience, "reschedule-patience", p.Patience,
		"how long a task must have waited for a node before other Pods are moved for it")
	flags.Float64Var(&p.Threshold, "reschedule-threshold", p.Threshold,
		"fraction of a node's GPUs, 0 to 1, that may be in use for its Pods to be moved away, so that the whole node becomes free; 0 frees no nodes")
	flags.Int64Var(&p.ApproveCost, "reschedule-approve-cost", p.ApproveCost,
		"maximum cost of a MovePlan, in GPU-seconds, that needs no approval by a person; 0 means that every plan that costs anything needs approval")
	flags.BoolVar(&p.ApproveForOthers, "reschedule-approve-across-namespaces", p.ApproveForOthers,
		"allow MovePlans that move Pods of one namespace for a task of another without approval by a person, if their cost needs none")
	flags.IntVar(&p.MaxMoves, "reschedule-max-moves", p.MaxMoves,
		"maximum number of Pods that a MovePlan moves; 0 means no limit")
	flags.IntVar(&p.MovesPerHour, "reschedule-moves-per-hour", p.MovesPerHour,
		"maximum number of Pods that are moved in an hour; 0 means no limit")
	flags.Int64Var(&p.GPUMinutesPerHour, "reschedule-gpu-minutes-per-hour", p.GPUMinutesPerHour,
		"maximum work of each namespace, in GPU-minutes, that is lost to moves in an hour; 0 means no limit")
	flags.DurationVar(&p.Cooldown, "reschedule-cooldown", p.Cooldown,
		"how long a moved task is not moved again")
	flags.BoolVar(&p.Unhealthy, "reschedule-unhealthy", p.Unhealthy,
		"move tasks off unhealthy GPUs, if there is room for the whole gang elsewhere")
	flags.DurationVar(&p.UnhealthyAfter, "reschedule-unhealthy-after", p.UnhealthyAfter,
		"how long a GPU must have been unhealthy before its tasks are moved")
	flags.DurationVar(&p.Backoff, "reschedule-backoff", p.Backoff,
		"how long to wait after an aborted MovePlan before moving anything for the same purpose; doubles with each abort in a row, up to 1h")
	flags.DurationVar(&o.MoveTimeout, "reschedule-move-timeout", o.MoveTimeout,
		"how long moved Pods may take to run again, in addition to their grace period, before the MovePlan is aborted")
	flags.Var(&levelsFlag{&o.Levels}, "topology-levels",
		"topology levels and their node labels, widest first, as configured for gpu-scheduler")
	o.hideFlags(flags)
}

// noEffect is said of flags whose values are constants now.
const noEffect = "it has no effect, and the next version refuses it"

// hideFlags hides the times that only tests set, and ignores the flags of the version before whose values are constants
// now.
func (o *Options) hideFlags(flags *pflag.FlagSet) {
	for _, name := range []string{"reschedule-cooldown", "reschedule-backoff", "reschedule-move-timeout"} {
		flags.Lookup(name).Hidden = true
	}
	flags.Float64("reschedule-min-gain", 0, noEffect)
	flags.Int64("reschedule-move-cost", 0, noEffect)
	flags.Duration("reschedule-plan-history", 0, noEffect)
	for _, name := range []string{"reschedule-min-gain", "reschedule-move-cost", "reschedule-plan-history"} {
		flag := flags.Lookup(name)
		flag.Hidden, flag.Deprecated = true, noEffect
	}
}

// Validate checks all flags: it calls require with each condition and the error if it does
// not hold.
func (o *Options) Validate(require func(holds bool, format string, values ...any)) {
	p := &o.Planner
	require(o.Period >= 0, "--reschedule-period=%v: must not be negative; 0 switches rescheduling off", o.Period)
	require(p.Mode == reschedule.Consolidate || p.Mode == reschedule.Recreate,
		"--reschedule-mode=%s: must be %s or %s", p.Mode, reschedule.Consolidate, reschedule.Recreate)
	require(p.Patience >= 0, "--reschedule-patience=%v: must not be negative", p.Patience)
	require(p.Threshold >= 0 && p.Threshold <= 1, "--reschedule-threshold=%v: must be from 0 to 1, a part of a node's GPUs", p.Threshold)
	require(p.ApproveCost >= 0, "--reschedule-approve-cost=%d: must not be negative; with 0, every plan that costs anything needs approval", p.ApproveCost)
	require(p.MaxMoves >= 0, "--reschedule-max-moves=%d: must not be negative; 0 is no limit", p.MaxMoves)
	require(p.MovesPerHour >= 0, "--reschedule-moves-per-hour=%d: must not be negative; 0 is no limit", p.MovesPerHour)
	require(p.GPUMinutesPerHour >= 0, "--reschedule-gpu-minutes-per-hour=%d: must not be negative; 0 is no limit", p.GPUMinutesPerHour)
	require(p.Cooldown >= 0, "--reschedule-cooldown=%v: must not be negative", p.Cooldown)
	require(p.UnhealthyAfter >= 0, "--reschedule-unhealthy-after=%v: must not be negative", p.UnhealthyAfter)
	require(p.Backoff >= 0, "--reschedule-backoff=%v: must not be negative", p.Backoff)
	require(o.MoveTimeout > 0, "--reschedule-move-timeout=%v: must be greater than 0", o.MoveTimeout)
}

// levelsFlag is a flag with topology levels.
type levelsFlag struct{ levels *snapshot.Levels }

var _ pflag.Value = &levelsFlag{}

// Set implements pflag.Value.
func (f *levelsFlag) Set(text string) error {
	levels, err := snapshot.ParseLevels(text)
	if err == nil {
		*f.levels = levels
	}
	return err
}

// String implements pflag.Value.
func (f *levelsFlag) String() string {
	if f.levels == nil {
		return ""
	}
	return f.levels.String()
}

// Type implements pflag.Value.
func (f *levelsFlag) Type() string { return "name=label,..." }
