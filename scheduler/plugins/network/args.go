// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"falldio.github.io/gpu-controller/scheduler/config"
)

// Args are the arguments of plugin NetworkSpeed, kind NetworkSpeedArgs. All profiles of a
// process must have the same.
type Args struct {
	config.TypeMeta `json:",inline"`
	// Port is where the agents listen, 9836 by default. A Node's annotation
	// falldio.com/probe-url wins.
	Port int `json:"port,omitempty"`
	// PeriodSeconds is how often each node is asked about each target, 30 by
	// default.
	PeriodSeconds int `json:"periodSeconds,omitempty"`
	// TimeoutMilliseconds is how long an answer may take, 2000 by default. A
	// target that is not reached counts as if that took so long.
	TimeoutMilliseconds int `json:"timeoutMilliseconds,omitempty"`
	// HalfLifeSeconds is the age at which a measurement counts half as much as a new one,
	// 60 by default.
	HalfLifeSeconds int `json:"halfLifeSeconds,omitempty"`
	// ExpirySeconds is how long after its last measurement a node is unknown again, 300 by
	// default; at least two periods.
	ExpirySeconds int `json:"expirySeconds,omitempty"`
	// TypicalMilliseconds is what nodes are compared with while all known ones are equal,
	// 100 by default.
	TypicalMilliseconds int `json:"typicalMilliseconds,omitempty"`
	// Parallelism is how many agents are asked at once, 16 by default.
	Parallelism int `json:"parallelism,omitempty"`
	// MaxTargets is how many targets are measured at most, 20 by default. Pods
	// with further ones are placed as if they had none.
	MaxTargets int `json:"maxTargets,omitempty"`
	// RememberSeconds is how long a target is still measured after the last Pod that wanted
	// it was placed, 600 by default.
	RememberSeconds int `json:"rememberSeconds,omitempty"`
	// Modules are the modules that Pods may name, http_2xx, tcp_connect and icmp
	// by default. Pods with others are placed as if they had no target.
	Modules []string `json:"modules,omitempty"`
}

// DefaultArgs returns the defaults.
func DefaultArgs() *Args {
	return &Args{
		Port: 9836, PeriodSeconds: 30, TimeoutMilliseconds: 2000, HalfLifeSeconds: 60, ExpirySeconds: 300,
		TypicalMilliseconds: 100, Parallelism: 16, MaxTargets: 20, RememberSeconds: 600,
		Modules: []string{DefaultModule, "tcp_connect", "icmp"},
	}
}

func decode(object runtime.Object) (*Args, error) {
	args := DefaultArgs()
	if err := config.Decode(Name, object, args); err != nil {
		return nil, err
	}
	args.TypeMeta = config.TypeMeta{} // the same with and without arguments
	if err := args.validate().ToAggregate(); err != nil {
		return nil, fmt.Errorf("arguments of plugin %s: %w", Name, err)
	}
	return args, nil
}

const (
	day  = 24 * 60 * 60 // in seconds
	hour = 60 * 60
	// maxModules and maxModuleBytes are more than anyone needs.
	maxModules     = 100
	maxModuleBytes = 100
)

func (a *Args) validate() field.ErrorList {
	var errs field.ErrorList
	for _, bound := range []struct {
		name            string
		value, from, to int
	}{
		{"port", a.Port, 1, 65535},
		{"periodSeconds", a.PeriodSeconds, 1, hour},
		{"timeoutMilliseconds", a.TimeoutMilliseconds, 1, 60_000},
		{"halfLifeSeconds", a.HalfLifeSeconds, 1, day},
		{"expirySeconds", a.ExpirySeconds, 2 * a.PeriodSeconds, 7 * day},
		{"typicalMilliseconds", a.TypicalMilliseconds, 1, 60_000},
		{"parallelism", a.Parallelism, 1, 256},
		{"maxTargets", a.MaxTargets, 1, 1000},
		{"rememberSeconds", a.RememberSeconds, 1, day},
	} {
		if bound.value < bound.from || bound.value > bound.to {
			errs = append(errs, field.Invalid(field.NewPath(bound.name), bound.value, fmt.Sprintf("must be from %d to %d", bound.from, bound.to)))
		}
	}
	modules := field.NewPath("modules")
	if len(a.Modules) == 0 || len(a.Modules) > maxModules {
		errs = append(errs, field.Invalid(modules, len(a.Modules), fmt.Sprintf("must be from 1 to %d", maxModules)))
	}
	for i, module := range a.Modules {
		if module == "" || len(module) > maxModuleBytes {
			errs = append(errs, field.Invalid(modules.Index(i), module, "must be the name of a module"))
		}
	}
	return errs
}

func (a *Args) same(other *Args) error {
	if !reflect.DeepEqual(a, other) {
		return fmt.Errorf("arguments of plugin %s: must be the same in all profiles, which share what is measured", Name)
	}
	return nil
}

func seconds(count int) time.Duration { return time.Duration(count) * time.Second }

func milliseconds(count int) time.Duration { return time.Duration(count) * time.Millisecond }
