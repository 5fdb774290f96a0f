// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dradriver gives out the GPUs of a node over dynamic resource allocation (DRA). See
// docs/dra.md.
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
	os.Exit(program.Run("dradriver", func(ctx context.Context) error {
		return opts.Start(ctx, version, flags, os.Args[1:], func(args []string) error {
			if !flags.Changed("node-name") {
				opts.nodeName = os.Getenv("NODE_NAME")
			}
			return opts.complete(args)
		}, func(ctx context.Context) error { return run(ctx, opts) })
	}))
}
