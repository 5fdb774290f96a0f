// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command app runs in the containers of the real node, sandbox containers
// included: it prints its environment and the files of its simulated GPUs, and waits to be
// stopped. With the argument
// "allreduce" it is a member of a gang that computes together.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// gpuFiles is where a container that was given its GPUs by CDI has a file for each of them.
const gpuFiles = "/run/falldio/gpus"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "allreduce" {
		if err := train(context.Background()); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	printEnvironment()
}

// printEnvironment prints the environment and waits to be stopped.
func printEnvironment() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	variables := os.Environ()
	slices.Sort(variables)
	for _, variable := range variables {
		fmt.Println(variable)
	}
	if files, err := os.ReadDir(gpuFiles); err == nil {
		for _, file := range files {
			fmt.Printf("%s/%s=\n", gpuFiles, file.Name())
		}
	}
	fmt.Println("-- that was all") // so that readers can tell that the output is complete
	<-ctx.Done()
}
