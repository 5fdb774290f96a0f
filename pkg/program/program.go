// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package program starts a program and ends it: its flags, its version, logging, signals and the exit code.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
)

// Run runs a program until SIGINT or SIGTERM; a second signal ends the process at once. It prints the error,
// and returns the exit code.
func Run(name string, run func(ctx context.Context) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	err := run(ctx)
	logs.FlushLogs()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// Options are the flags that all programs have.
type Options struct {
	printVersion bool
	logging      *logsapi.LoggingConfiguration
}

// NewOptions returns the defaults of the flags.
func NewOptions() Options { return Options{logging: logsapi.NewLoggingConfiguration()} }

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	logsapi.AddFlags(o.logging, flags)
	flags.BoolVar(&o.printVersion, "version", o.printVersion, "print the version and exit")
}

// Start reads the flags of a program from its arguments, has them checked together with what is no flag,
// and runs the program with a logger in its context, or prints its version.
func (o *Options) Start(
	ctx context.Context, version string, flags *pflag.FlagSet, args []string, check func(args []string) error, run func(context.Context) error,
) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.printVersion {
		fmt.Println(flags.Name(), version)
		return nil
	}
	if err := check(flags.Args()); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(o.logging, nil); err != nil {
		return err
	}
	return run(klog.NewContext(ctx, klog.Background())) // as the flags say how to log
}

// Problems are what is wrong with flags.
type Problems []error

// Require adds a problem if a condition does not hold.
func (p *Problems) Require(holds bool, format string, values ...any) {
	if !holds {
		*p = append(*p, fmt.Errorf(format, values...))
	}
}

// OneOf adds a problem if the value of a flag is none of the choices.
func (p *Problems) OneOf(flag, value string, choices ...string) {
	last := len(choices) - 1
	p.Require(slices.Contains(choices, value), "--%s=%s: must be %s or %s", flag, value, strings.Join(choices[:last], ", "), choices[last])
}

// Absolute adds a problem if the path in a flag is relative.
func (p *Problems) Absolute(flag, path string) {
	p.Require(filepath.IsAbs(path), "--%s=%s: must be an absolute path", flag, path)
}

// AbsoluteOrNone adds a problem if there is a path in a flag, and it is relative.
func (p *Problems) AbsoluteOrNone(flag, path string) {
	if path != "" {
		p.Absolute(flag, path)
	}
}
