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
	flags.DurationVar(&o.Period, "reschedule-period", o.Period,
		"how often to look what should be moved: tasks for which room must be made, and Pods on nodes that are cordoned or no longer of the task's GPU model; 0 for never")
	flags.StringVar((*string)(&o.Planner.Mode), "reschedule-mode", string(o.Planner.Mode),
		"consolidate moves as few Pods as possible to places that are planned and reserved; recreate stops one task after the other and lets the scheduler reschedule it")
	flags.DurationVar(&o.Planner.Patience, "reschedule-patience", o.Planner.Patience,
		"how long a task must have waited for a node before other Pods are moved for it")
	flags.Float64Var(&o.Planner.Threshold, "reschedule-threshold", o.Planner.Threshold,
		"part of a node's GPUs, 0 to 1, that may be in use if Pods are to leave it to give it back; 0 gives no nodes back")
	flags.Int64Var(&o.Planner.ApproveCost, "reschedule-approve-cost", o.Planner.ApproveCost,
		"cost of a MovePlan, in GPU-seconds, up to which it needs no person's approval; 0 for none without")
	flags.BoolVar(&o.Planner.ApproveForOthers, "reschedule-approve-across-namespaces", o.Planner.ApproveForOthers,
		"let MovePlans that move Pods of one namespace for a task of another be carried out without a person's approval, if their cost needs none")
	flags.IntVar(&o.Planner.MaxMoves, "reschedule-max-moves", o.Planner.MaxMoves,
		"number of Pods that a MovePlan moves at most; 0 for no limit")
	flags.IntVar(&o.Planner.MovesPerHour, "reschedule-moves-per-hour", o.Planner.MovesPerHour,
		"number of Pods that are moved in an hour at most; 0 for no limit")
	flags.Int64Var(&o.Planner.GPUMinutesPerHour, "reschedule-gpu-minutes-per-hour", o.Planner.GPUMinutesPerHour,
		"work of each namespace, in GPU-minutes, that is lost to moves in an hour at most; 0 for no limit")
	flags.DurationVar(&o.Planner.Cooldown, "reschedule-cooldown", o.Planner.Cooldown,
		"how long a task that was moved stays where it is")
	flags.BoolVar(&o.Planner.Unhealthy, "reschedule-unhealthy", o.Planner.Unhealthy,
		"move tasks off GPUs that are not healthy, where there is room for all of a gang elsewhere")
	flags.DurationVar(&o.Planner.UnhealthyAfter, "reschedule-unhealthy-after", o.Planner.UnhealthyAfter,
		"how long a GPU must have been unhealthy before its tasks are moved")
	flags.DurationVar(&o.Planner.Backoff, "reschedule-backoff", o.Planner.Backoff,
		"how long nothing is moved for the same purpose after a MovePlan was aborted; it doubles with each in a row, up to 1h")
	flags.DurationVar(&o.MoveTimeout, "reschedule-move-timeout", o.MoveTimeout,
		"how long Pods that are moved may take to run again, beside their grace period, before the MovePlan is aborted")
	flags.Var(&levelsFlag{&o.Levels}, "topology-levels",
		"levels of the network's topology and the labels of nodes that name their domains, the widest first, as gpu-scheduler is configured")
	o.hideFlags(flags)
}

// noEffect is said of flags whose values are constants now.
const noEffect = "it has no effect, and the next version refuses it"

// hideFlags hides the times that only tests set, and ignores the flags of the version before whose values are constants now.
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
	require(o.Period >= 0, "--reschedule-period=%v: must not be negative; 0 switches rescheduling off", o.Period)
	require(o.Planner.Mode == reschedule.Consolidate || o.Planner.Mode == reschedule.Recreate,
		"--reschedule-mode=%s: must be %s or %s", o.Planner.Mode, reschedule.Consolidate, reschedule.Recreate)
	require(o.Planner.Patience >= 0, "--reschedule-patience=%v: must not be negative", o.Planner.Patience)
	require(o.Planner.Threshold >= 0 && o.Planner.Threshold <= 1, "--reschedule-threshold=%v: must be from 0 to 1, a part of a node's GPUs", o.Planner.Threshold)
	require(o.Planner.ApproveCost >= 0, "--reschedule-approve-cost=%d: must not be negative; with 0 a person approves every plan that costs anything", o.Planner.ApproveCost)
	require(o.Planner.MaxMoves >= 0, "--reschedule-max-moves=%d: must not be negative; 0 is no limit", o.Planner.MaxMoves)
	require(o.Planner.MovesPerHour >= 0, "--reschedule-moves-per-hour=%d: must not be negative; 0 is no limit", o.Planner.MovesPerHour)
	require(o.Planner.GPUMinutesPerHour >= 0, "--reschedule-gpu-minutes-per-hour=%d: must not be negative; 0 is no limit", o.Planner.GPUMinutesPerHour)
	require(o.Planner.Cooldown >= 0, "--reschedule-cooldown=%v: must not be negative", o.Planner.Cooldown)
	require(o.Planner.UnhealthyAfter >= 0, "--reschedule-unhealthy-after=%v: must not be negative", o.Planner.UnhealthyAfter)
	require(o.Planner.Backoff >= 0, "--reschedule-backoff=%v: must not be negative", o.Planner.Backoff)
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
