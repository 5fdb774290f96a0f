// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command nodeagent monitors the GPUs of a node: it labels the Node, exports metrics, and is a
// device plugin of the kubelet. See docs/node-agent.md.
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
		fmt.Fprintf(os.Stderr, "nodeagent: %v\n", err)
		os.Exit(1)
	}
}

// start reads flags and environment and runs the agent until SIGINT or SIGTERM. A second
// signal ends the process at once.
func start(args []string) error {
	opts := newOptions()
	flags := opts.flags()
	if err := flags.Parse(args); err != nil {
		return err
	}
	if opts.printVersion {
		fmt.Println("nodeagent", version)
		return nil
	}
	opts.readEnvironment(flags, os.Getenv)
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
