// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-gputask manages GPUTasks from the command line: kubectl finds it as
// `kubectl gputask`. See docs/kubectl-gputask.md.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"falldio.github.io/gpu-controller/kubectl-gputask/command"
)

// version is set by the linker: see the Makefile.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := command.New(command.Real(version)).ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
	case interrupted && errors.Is(err, context.Canceled):
		os.Exit(130) // the exit code that shells report after Ctrl-C
	default:
		command.Report(os.Stderr, err)
		os.Exit(command.ExitCode(err))
	}
}
