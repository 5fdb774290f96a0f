// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gpu-controller turns GPUTask objects into Pods and keeps their status up to date.
// See docs/architecture.md for its place among the other processes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/klog/v2"
)

func main() {
	err := start(os.Args[1:])
	logs.FlushLogs()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "gpu-controller: %v\n", err)
		os.Exit(1)
	}
}

// start parses the flags and runs the controller until SIGINT or SIGTERM. A second signal
// terminates the process at once.
func start(args []string) error {
	opts := newOptions()
	flags := opts.flags()
	if err := flags.Parse(args); err != nil {
		return err
	}
	if opts.printVersion {
		fmt.Println("gpu-controller", version)
		return nil
	}
	if err := opts.validate(flags.Args()); err != nil {
		return err
	}
	if err := logsapi.ValidateAndApply(opts.logging, nil); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(klog.NewContext(ctx, klog.Background()), opts)
}
