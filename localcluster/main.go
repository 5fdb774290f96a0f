// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command localcluster runs a real Kubernetes with simulated GPU nodes on the
// loopback interface. One binary contains all components and starts itself once
// for each of them.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/version"

	"falldio.github.io/gpu-controller/localcluster/cluster"
	"falldio.github.io/gpu-controller/localcluster/components"
	"falldio.github.io/gpu-controller/localcluster/directory"
	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/localcluster/process"
)

const (
	// dirVariable is the environment variable with the cluster's directory.
	dirVariable = "LOCALCLUSTER_DIR"
	defaultDir  = ".localcluster"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		var exit exitError
		if errors.As(err, &exit) {
			os.Exit(int(exit))
		}
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		os.Exit(1)
	}
}

// exitError is the exit code of a component that has printed its error itself.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "localcluster",
		Short:         "A real Kubernetes with simulated GPU nodes, on this machine only",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	// Kubernetes adds this flag to each program that links it; ours is a command.
	_ = pflag.CommandLine.MarkHidden("version")
	command.AddCommand(newUpCommand(), newKubectlCommand(), newComponentCommand(), newJanitorCommand(), newVersionCommand())
	return command
}

func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl ...",
		Short:              "Run kubectl on the running cluster (in $" + dirVariable + ", or " + defaultDir + ")",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			dir := dirFromEnvironment()
			kubeconfig := cluster.KubeconfigPath(dir)
			if _, err := os.Stat(kubeconfig); err != nil {
				return fmt.Errorf("no cluster is ready in %s: start one with `localcluster up`, or set its directory in %s", dir, dirVariable)
			}
			for variable, value := range map[string]string{
				"KUBECONFIG":   kubeconfig,
				"KUBECACHEDIR": cluster.KubectlCachePath(dir),
				"PATH":         pathWithPlugins(),
			} {
				if err := os.Setenv(variable, value); err != nil {
					return err
				}
			}
			return runComponent(names.Kubectl, args)
		},
	}
}

// pathWithPlugins returns the PATH in which kubectl looks for plugins: first the
// directory of localcluster, which is built beside kubectl-gputask.
func pathWithPlugins() string {
	path := os.Getenv("PATH")
	executable, err := os.Executable()
	if err != nil {
		return path
	}
	return filepath.Dir(executable) + string(os.PathListSeparator) + path
}

func newComponentCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "component NAME ARGS...",
		Short:              "Be one component of a cluster",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("missing component: expected one of %v", components.Names())
			}
			return runComponent(args[0], args[1:])
		},
	}
}

func newJanitorCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "janitor DIR",
		Short:  "Clean up once standard input ends",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return process.RunJanitor(os.Stdin, func() error { return directory.Remove(args[0]) })
		},
	}
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of Kubernetes inside",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(command.OutOrStdout(), "Kubernetes", version.Get().GitVersion)
			return err
		},
	}
}

func runComponent(name string, args []string) error {
	if code := components.Run(name, args); code != 0 {
		return exitError(code)
	}
	return nil
}

func dirFromEnvironment() string {
	if dir := os.Getenv(dirVariable); dir != "" {
		return dir
	}
	return defaultDir
}
