// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command nodeagent monitors the GPUs of a node: it labels the Node, exports metrics, and is a
// device plugin of the kubelet. See docs/node-agent.md.
package main

import (
	"context"
	"os"

	"falldio.github.io/gpu-controller/pkg/program"
)

// version is set by the linker: see the Makefile.
var version = "unknown"

func main() {
	opts := newOptions()
	flags := opts.flags()
	os.Exit(program.Run("nodeagent", func(ctx context.Context) error {
		return opts.Start(ctx, version, flags, os.Args[1:], func(args []string) error {
			opts.readEnvironment(flags, os.Getenv)
			return opts.complete(args)
		}, func(ctx context.Context) error { return run(ctx, opts) })
	}))
}
