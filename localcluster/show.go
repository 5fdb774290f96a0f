// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/artifacts"
	"falldio.github.io/gpu-controller/localcluster/cluster"
	"falldio.github.io/gpu-controller/localcluster/examples"
	"falldio.github.io/gpu-controller/localcluster/names"
)

// examplesTimeout is several times longer than the examples take on a slow machine.
const examplesTimeout = 3 * time.Minute

// afterReady returns the function to be called when the cluster is ready: it runs
// the examples if requested, and prints what to do next.
func (f *upFlags) afterReady(executable string) func(context.Context, cluster.Running) error {
	return func(ctx context.Context, running cluster.Running) error {
		if running.Dashboard != "" {
			fmt.Fprintf(running.Out, "\nThe dashboard is at\n  %s\n", running.Dashboard)
		}
		if !f.examples {
			printNextSteps(running, f.Dir, "get nodes", "gputask top")
			return nil
		}
		err := showExamples(ctx, running, executable)
		switch {
		case f.once && err == nil:
			return cluster.ErrStop
		case f.once:
			return err
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the user stopped the cluster, and with it the examples
		case err != nil:
			fmt.Fprintf(running.Out, "\n! %v\n", err)
		}
		printNextSteps(running, f.Dir, "describe gputask left", "gputask explain too-big", "gputask top")
		return nil
	}
}

// showExamples runs the examples and then lists them with kubectl.
func showExamples(ctx context.Context, running cluster.Running, executable string) error {
	loaded, err := examples.Load(artifacts.Files, artifacts.Examples)
	if err != nil {
		return err
	}
	fmt.Fprintf(running.Out, "\nRunning the %d GPUTasks of artifacts/examples:\n\n", len(loaded.Tasks))
	err = examples.Run(ctx, examples.Config{
		Cluster:   running.Config,
		Namespace: metav1.NamespaceDefault,
		Tasks:     loaded.Tasks,
		Queues:    loaded.Queues,
		Faults:    cluster.GPUFaultsPath(running.Dir),
		Timeout:   examplesTimeout,
		Out:       running.Out,
		Clock:     clock.RealClock{},
	})
	for _, resource := range []string{"gputasks", "gpuqueues", "moveplans"} {
		fmt.Fprintf(running.Out, "\n$ kubectl get %s\n", resource)
		kubectl := exec.CommandContext(ctx, executable, "component", names.Kubectl, "--kubeconfig", running.Kubeconfig, "get", resource)
		kubectl.Stdout, kubectl.Stderr = running.Out, running.Out
		err = errors.Join(err, kubectl.Run())
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(running.Out, "\nEvery example ended as expected.")
	return nil
}

func printNextSteps(running cluster.Running, dir string, commands ...string) {
	kubectl := "bin/localcluster kubectl"
	if dir != defaultDir {
		kubectl = dirVariable + "=" + dir + " " + kubectl
	}
	fmt.Fprint(running.Out, "\nThe cluster stays up. Try it from another terminal, in this folder:\n")
	for _, command := range append(commands, "explain gputask.spec") {
		fmt.Fprintf(running.Out, "  %s %s\n", kubectl, command)
	}
	fmt.Fprintf(running.Out, "or with your own kubectl:\n  export KUBECONFIG=%s\n", running.Kubeconfig)
	if running.Dashboard != "" {
		fmt.Fprintf(running.Out, "or in a browser:\n  %s\n", running.Dashboard)
	}
	fmt.Fprintln(running.Out, "Ctrl-C stops the cluster and deletes everything.")
}
