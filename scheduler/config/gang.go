// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// GangPlugin is the plugin that GangArgs are for.
const GangPlugin = "GPUGang"

// GangArgs are the arguments of plugin GPUGang. All profiles of a process must have the
// same.
type GangArgs struct {
	TypeMeta `json:",inline"`
	// TopologyLevels map the levels that gangs name to labels of nodes, from the
	// widest to the narrowest.
	TopologyLevels []TopologyLevel `json:"topologyLevels,omitempty"`
	// NodePools confine the scheduler to nodes of these pools (label
	// falldio.com/node-pool). Several schedulers with different pools may run side
	// by side. Without any it uses all nodes.
	NodePools []string `json:"nodePools,omitempty"`
	// GPUResources are the names under which Pods ask for whole GPUs to be placed with their
	// cards. Pods that ask for GPUs under another name are left to kube-scheduler.
	GPUResources []corev1.ResourceName `json:"gpuResources,omitempty"`
	// PermitTimeoutSeconds is how long a member of a gang waits at the barrier for
	// the others, at most. Usually that takes milliseconds.
	PermitTimeoutSeconds int `json:"permitTimeoutSeconds,omitempty"`
	// MaxRefusals is how many nodes with room may refuse members of a gang in a row, before
	// it has to wait.
	MaxRefusals int `json:"maxRefusals,omitempty"`
	// PartialGangTimeoutSeconds is how long a gang may have some Pods on nodes, but fewer
	// than have to start together, while others wait. After that its Pods are evicted.
	PartialGangTimeoutSeconds int `json:"partialGangTimeoutSeconds,omitempty"`
	// StarvationSeconds is deprecated and has no effect: bookings keep gangs from starving.
	StarvationSeconds int `json:"starvationSeconds,omitempty"`
	// ClaimSeconds is how long nodes are kept for a gang although none leaves of the Pods that were preempted
	// for it, or that it has a booking behind and of which nobody knows when they end.
	ClaimSeconds int `json:"claimSeconds,omitempty"`
	// QueuePolicy is the order between GPUQueues: deadline, fairshare, fifo or multifactor. Without
	// GPUQueues, priority and age decide.
	QueuePolicy string `json:"queuePolicy,omitempty"`
	// QueueMaxOvertakeSeconds bounds, with the policy deadline, how long after a gang's
	// submission others may still be submitted that go before it.
	QueueMaxOvertakeSeconds int `json:"queueMaxOvertakeSeconds,omitempty"`
	// Reservations is how many of the first waiting gangs have places booked from the time on
	// at which they are expected to start; others use these places until then if they end in
	// time. It is a number for each class of nodes that jobs can use. 0 means none.
	Reservations int `json:"reservations,omitempty"`
	// HistoryPeriodSeconds is how often what was learned from the past is written: how long jobs ran, which were
	// submitted, and how estimates turned out. It is read when a scheduler takes over. 0 means that it is not kept.
	HistoryPeriodSeconds int `json:"historyPeriodSeconds,omitempty"`
	// ExplainPeriodSeconds is how often the message why a Pod waits is updated.
	ExplainPeriodSeconds int `json:"explainPeriodSeconds,omitempty"`
	// ReportUnschedulableMembers gives all members of a gang that finds no place the
	// condition that autoscalers read, not only one. It costs a write for each Pod.
	ReportUnschedulableMembers bool `json:"reportUnschedulableMembers,omitempty"`
	// PreferenceTolerance is how much worse packing may become, in GPUs, for a Pod to go
	// where its preferred node affinity or a PreferNoSchedule taint would rather have it. With
	// 0 these only decide between nodes that packing finds equally good.
	PreferenceTolerance float64 `json:"preferenceTolerance,omitempty"`
	// Journal is where the last decisions are recorded; nowhere if it is not given.
	Journal *JournalArgs `json:"journal,omitempty"`
}

// TopologyLevel is a level and its label.
type TopologyLevel struct {
	Name      string `json:"name"`
	NodeLabel string `json:"nodeLabel"`
}

// DefaultGangArgs returns the defaults.
func DefaultGangArgs() *GangArgs {
	args := &GangArgs{
		PermitTimeoutSeconds: 60, MaxRefusals: 5, PartialGangTimeoutSeconds: 600,
		StarvationSeconds: 60, ClaimSeconds: 600, ExplainPeriodSeconds: 10, GPUResources: snapshot.GPUResources(),
		QueuePolicy: string(queueing.Deadline), QueueMaxOvertakeSeconds: int(queueing.DefaultMaxOvertake / time.Second), Reservations: 8,
		HistoryPeriodSeconds: 300,
	}
	for _, level := range snapshot.DefaultLevels() {
		args.TopologyLevels = append(args.TopologyLevels, TopologyLevel(level))
	}
	return args
}

// DecodeGang reads the arguments of plugin GPUGang. Lists that are given replace
// the default.
func DecodeGang(object runtime.Object) (*GangArgs, error) {
	defaults := DefaultGangArgs()
	args := DefaultGangArgs()
	args.TopologyLevels, args.GPUResources = nil, nil
	if err := Decode(GangPlugin, object, args); err != nil {
		return nil, err
	}
	if args.TopologyLevels == nil {
		args.TopologyLevels = defaults.TopologyLevels
	}
	if args.GPUResources == nil {
		args.GPUResources = defaults.GPUResources
	}
	if args.Journal != nil {
		args.Journal.setDefaults()
	}
	if err := args.validate().ToAggregate(); err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w", GangPlugin, err)
	}
	return args, nil
}

func (a *GangArgs) validate() field.ErrorList {
	var errs field.ErrorList
	names, labels := map[string]bool{}, map[string]bool{}
	for i, level := range a.TopologyLevels {
		path := field.NewPath("topologyLevels").Index(i)
		if names[level.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), level.Name))
		}
		if labels[level.NodeLabel] {
			errs = append(errs, field.Duplicate(path.Child("nodeLabel"), level.NodeLabel))
		}
		names[level.Name], labels[level.NodeLabel] = true, true
		errs = append(errs, invalid(path.Child("name"), level.Name, validation.IsDNS1123Label(level.Name))...)
		errs = append(errs, invalid(path.Child("nodeLabel"), level.NodeLabel, validation.IsQualifiedName(level.NodeLabel))...)
	}
	for i, pool := range a.NodePools {
		path := field.NewPath("nodePools").Index(i)
		if pool == "" {
			errs = append(errs, field.Required(path, "the name of a node pool"))
		}
		errs = append(errs, invalid(path, pool, validation.IsValidLabelValue(pool))...)
	}
	errs = append(errs, a.validateGPUResources()...)
	if a.Journal != nil {
		errs = append(errs, a.Journal.validate(field.NewPath("journal"))...)
	}
	for _, bound := range []struct {
		name            string
		value, from, to int
	}{
		// The framework lets no Pod wait at Permit for longer than 15 minutes.
		{"permitTimeoutSeconds", a.PermitTimeoutSeconds, 1, 900},
		{"maxRefusals", a.MaxRefusals, 0, 1000},
		{"partialGangTimeoutSeconds", a.PartialGangTimeoutSeconds, 1, maxSeconds},
		{"starvationSeconds", a.StarvationSeconds, 0, maxSeconds},
		{"claimSeconds", a.ClaimSeconds, 1, maxSeconds},
		{"queueMaxOvertakeSeconds", a.QueueMaxOvertakeSeconds, 1, maxSeconds},
		{"reservations", a.Reservations, 0, 64},
		{"historyPeriodSeconds", a.HistoryPeriodSeconds, 0, maxSeconds},
		{"explainPeriodSeconds", a.ExplainPeriodSeconds, 0, maxSeconds},
	} {
		if bound.value < bound.from || bound.value > bound.to {
			errs = append(errs, field.Invalid(field.NewPath(bound.name), bound.value, fmt.Sprintf("must be from %d to %d", bound.from, bound.to)))
		}
	}
	if _, err := queueing.ParsePolicy(a.QueuePolicy); err != nil {
		errs = append(errs, field.NotSupported(field.NewPath("queuePolicy"), a.QueuePolicy, queueing.Policies()))
	}
	if a.PreferenceTolerance < 0 || a.PreferenceTolerance > maxPreferenceTolerance {
		errs = append(errs, field.Invalid(field.NewPath("preferenceTolerance"), a.PreferenceTolerance, fmt.Sprintf("must be from 0 to %d", maxPreferenceTolerance)))
	}
	return errs
}

// maxSeconds is longer than anybody waits, and less than a Duration can hold.
const maxSeconds = 1 << 30

// maxPreferenceTolerance is more than any place costs.
const maxPreferenceTolerance = 1000

func (a *GangArgs) validateGPUResources() field.ErrorList {
	var errs field.ErrorList
	path, seen := field.NewPath("gpuResources"), map[corev1.ResourceName]bool{}
	for i, name := range a.GPUResources {
		switch {
		case seen[name]:
			errs = append(errs, field.Duplicate(path.Index(i), name))
		case !slices.Contains(snapshot.GPUResources(), name):
			errs = append(errs, field.NotSupported(path.Index(i), name, snapshot.GPUResources()))
		}
		seen[name] = true
	}
	if !seen[v1.ResourceGPU] {
		errs = append(errs, field.Invalid(path, a.GPUResources, fmt.Sprintf("must contain %s, which GPUTasks ask for", v1.ResourceGPU)))
	}
	return errs
}

func invalid(path *field.Path, value string, problems []string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range problems {
		errs = append(errs, field.Invalid(path, value, problem))
	}
	return errs
}

// Levels returns the levels of topology.
func (a *GangArgs) Levels() snapshot.Levels {
	levels := make(snapshot.Levels, len(a.TopologyLevels))
	for i, level := range a.TopologyLevels {
		levels[i] = snapshot.Level(level)
	}
	return levels
}

// Seconds returns a number of seconds as a Duration.
func Seconds(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
