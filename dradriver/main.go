// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dradriver gives out the GPUs of a node over dynamic resource allocation (DRA). See
// docs/dra.md.
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

// version is set by the linker: see the Makefile.
var version = "unknown"

func main() {
	err := start(os.Args[1:])
	logs.FlushLogs()
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "dradriver: %v\n", err)
		os.Exit(1)
	}
}

// start reads flags and environment and runs the driver until SIGINT or SIGTERM. A second signal
// ends the process at once.
func start(args []string) error {
	opts := newOptions()
	flags := opts.flags()
	if err := flags.Parse(args); err != nil {
		return err
	}
	if opts.printVersion {
		fmt.Println("dradriver", version)
		return nil
	}
	if !flags.Changed("node-name") {
		opts.nodeName = os.Getenv("NODE_NAME")
	}
	if err := opts.complete(flags.Args()); err != nil {
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
