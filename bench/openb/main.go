// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command openb replays a production trace of single-Pod tasks on 1,213 nodes and
// prints how much of the GPUs is allocated when as much was asked for as there
// is.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench/openb: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := pflag.NewFlagSet("bench/openb", pflag.ContinueOnError)
	nodesPath := flags.String("nodes", "", "CSV file with the nodes")
	tracePath := flags.String("trace", "", "CSV file with the Pods")
	seed := flags.Int64("seed", 42, "seed of the order of arrivals")
	seeds := flags.Int("seeds", 1, "how many seeds to replay, from the first on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	nodes, err := readNodes(*nodesPath)
	if err != nil {
		return err
	}
	pods, err := readPods(*tracePath)
	if err != nil {
		return err
	}
	capacity := 0
	for _, node := range nodes {
		capacity += len(node.GPUs) * 1000
	}
	sum := 0.0
	for s := *seed; s < *seed+int64(*seeds); s++ {
		list := arrivals(pods, s, capacity)
		begin := time.Now()
		result, err := replay(nodes, list, packing.New(packing.Default()), func(pod, *placement.Place) {})
		if err != nil {
			return err
		}
		sum += result.at(100)
		fmt.Printf("seed %d: %d arrivals from %s, 95 %%: %.2f, 100 %%: %.2f, 130 %%: %.2f, %v\n", s, len(list), list[0].name,
			result.at(95), result.at(100), result.at(130), time.Since(begin).Round(time.Millisecond))
	}
	fmt.Printf("mean at 100 %%: %.3f\n", sum/float64(*seeds))
	return nil
}
