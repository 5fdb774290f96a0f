// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reschedule"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// reschedulingOptions are the flags about rescheduling.
type reschedulingOptions struct {
	// period is 0 if nothing is moved.
	period time.Duration
	// plan is what the planner is told.
	plan reschedule.Options
	mode string
	// moveTimeout is how long the Pods of a turn may take to run again.
	moveTimeout time.Duration
	// history is how long plans are kept that have ended.
	history time.Duration
	levels  snapshot.Levels
}

func newReschedulingOptions() reschedulingOptions {
	plan := reschedule.DefaultOptions()
	return reschedulingOptions{
		plan: plan, mode: string(plan.Mode), moveTimeout: 2 * time.Minute, history: 24 * time.Hour, levels: snapshot.DefaultLevels(),
	}
}

func (o *reschedulingOptions) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&o.period, "reschedule-period", o.period,
		"how often to look what should be moved: tasks for which room must be made, and Pods on nodes that are cordoned, not ready or no longer of the task's GPU model; 0 for never")
	flags.StringVar(&o.mode, "reschedule-mode", o.mode,
		"consolidate moves as few Pods as possible to places that are planned and reserved; recreate stops one task after the other and lets the scheduler place it anew")
	flags.DurationVar(&o.plan.Patience, "reschedule-patience", o.plan.Patience,
		"how long a task must have waited for a node before others are moved for it")
	flags.Float64Var(&o.plan.Threshold, "reschedule-threshold", o.plan.Threshold,
		"part of a node's GPUs, 0 to 1, that may be in use if Pods are to leave it to give it back; 0 gives no nodes back")
	flags.Float64Var(&o.plan.MinGain, "reschedule-min-gain", o.plan.MinGain,
		"GPUs that must be given back for each GPU-hour that the moves cost")
	flags.Int64Var(&o.plan.ApproveCost, "reschedule-approve-cost", o.plan.ApproveCost,
		"cost of a MovePlan, in GPU-seconds, up to which it needs no person's approval; 0 for none without")
	flags.Int64Var(&o.plan.MoveCost, "reschedule-move-cost", o.plan.MoveCost,
		"GPU-seconds that each move of a Pod costs beside the work that is lost")
	flags.IntVar(&o.plan.MaxMoves, "reschedule-max-moves", o.plan.MaxMoves,
		"number of Pods that a MovePlan moves at most; 0 for no limit")
	flags.IntVar(&o.plan.MovesPerHour, "reschedule-moves-per-hour", o.plan.MovesPerHour,
		"number of Pods that are moved in an hour at most; 0 for no limit")
	flags.Int64Var(&o.plan.GPUMinutesPerHour, "reschedule-gpu-minutes-per-hour", o.plan.GPUMinutesPerHour,
		"work of each namespace, in GPU-minutes, that is lost to moves in an hour at most; 0 for no limit")
	flags.DurationVar(&o.plan.Cooldown, "reschedule-cooldown", o.plan.Cooldown,
		"how long a task that was moved stays where it is")
	flags.DurationVar(&o.plan.Backoff, "reschedule-backoff", o.plan.Backoff,
		"how long nothing is moved for the same purpose after a MovePlan was aborted; it doubles with each in a row, up to 1h")
	flags.DurationVar(&o.moveTimeout, "reschedule-move-timeout", o.moveTimeout,
		"how long Pods that are moved may take to run again, beside their grace period, before the MovePlan is aborted")
	flags.DurationVar(&o.history, "reschedule-plan-history", o.history,
		"how long MovePlans are kept that have ended, at least 1h: they are the record of what was moved")
	flags.Var(&levelsFlag{&o.levels}, "topology-levels",
		"levels of the network's topology and the labels of nodes that name their domains, the widest first, as gpu-scheduler is configured")
}

func (o *reschedulingOptions) validate(require func(holds bool, format string, values ...any)) {
	require(o.period >= 0, "--reschedule-period=%v: must not be negative; 0 switches rescheduling off", o.period)
	require(o.mode == string(reschedule.Consolidate) || o.mode == string(reschedule.Recreate),
		"--reschedule-mode=%s: must be %s or %s", o.mode, reschedule.Consolidate, reschedule.Recreate)
	require(o.plan.Patience >= 0, "--reschedule-patience=%v: must not be negative", o.plan.Patience)
	require(o.plan.Threshold >= 0 && o.plan.Threshold <= 1, "--reschedule-threshold=%v: must be from 0 to 1, a part of a node's GPUs", o.plan.Threshold)
	require(o.plan.MinGain >= 0, "--reschedule-min-gain=%v: must not be negative", o.plan.MinGain)
	require(o.plan.ApproveCost >= 0, "--reschedule-approve-cost=%d: must not be negative; with 0 a person approves every plan that costs anything", o.plan.ApproveCost)
	require(o.plan.MoveCost >= 0, "--reschedule-move-cost=%d: must not be negative", o.plan.MoveCost)
	require(o.plan.MaxMoves >= 0, "--reschedule-max-moves=%d: must not be negative; 0 is no limit", o.plan.MaxMoves)
	require(o.plan.MovesPerHour >= 0, "--reschedule-moves-per-hour=%d: must not be negative; 0 is no limit", o.plan.MovesPerHour)
	require(o.plan.GPUMinutesPerHour >= 0, "--reschedule-gpu-minutes-per-hour=%d: must not be negative; 0 is no limit", o.plan.GPUMinutesPerHour)
	require(o.plan.Cooldown >= 0, "--reschedule-cooldown=%v: must not be negative", o.plan.Cooldown)
	require(o.plan.Backoff >= 0, "--reschedule-backoff=%v: must not be negative", o.plan.Backoff)
	require(o.moveTimeout > 0, "--reschedule-move-timeout=%v: must be greater than 0", o.moveTimeout)
	require(o.history >= moveplan.MinHistory, "--reschedule-plan-history=%v: must be at least %v: plans are the record that the budgets of an hour count by", o.history, moveplan.MinHistory)
}

// planner returns what the planner is told.
func (o *reschedulingOptions) planner(namespace string) reschedule.Options {
	plan := o.plan
	plan.Mode, plan.Namespace = reschedule.Mode(o.mode), namespace
	return plan
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
