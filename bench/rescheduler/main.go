// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command rescheduler compares ways to make room for large tasks on a cluster that is
// 95 % full and fragmented: doing nothing, rescheduling everything, the descheduler's
// HighNodeUtilization, and ours. Run it with "make bench-rescheduler";
// docs/benchmarks.md has the method and the results.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench/rescheduler: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	b, err := newBench(o, out)
	if err != nil {
		return err
	}
	if err := b.measure(); err != nil {
		return err
	}
	fmt.Fprint(out, b.text())
	if o.report == "" {
		return nil
	}
	if err := b.write(); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}
