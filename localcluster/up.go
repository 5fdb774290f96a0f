// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/version"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/artifacts"
	"falldio.github.io/gpu-controller/localcluster/cluster"
	"falldio.github.io/gpu-controller/localcluster/components"
	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/localcluster/profile"
)

const (
	defaultPodDuration  = 10 * time.Second
	defaultStartTimeout = 3 * time.Minute
	// none is the value of --controller, --scheduler and --nodeagent that runs none.
	none = "none"
	// stock is the value of --scheduler that runs kube-scheduler.
	stock = "stock"
)

// upFlags are the flags of "up" as given: in Options those that it takes as they are, and paths that may be relative or
// say which program runs.
type upFlags struct {
	cluster.Options
	profile         string
	nodes           []string
	artifacts       string
	schedulerConfig string
	examples        bool
	once            bool
}

func (f *upFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.Dir, "dir", dirFromEnvironment(), "the cluster's directory, which is deleted with it (also $"+dirVariable+")")
	flags.StringVar(&f.profile, "profile", "", "a YAML file that describes the simulated nodes")
	flags.StringArrayVar(&f.nodes, "nodes", nil, "simulated nodes in short, for example model=h100-80gb-hbm3,count=100,gpus=8; may be repeated; keys: "+strings.Join(profile.QuickKeys(), ", "))
	flags.DurationVar(&f.PodDuration, "pod-duration", defaultPodDuration, "how long the Pods of GPUTasks run, unless annotated")
	flags.StringVar(&f.Controller, "controller", "", "program of gpu-controller, or \"none\" (default: gpu-controller beside localcluster)")
	flags.StringArrayVar(&f.ControllerArgs, "controller-arg", nil, "additional argument for gpu-controller; may be repeated")
	flags.StringVar(&f.EmulatedVersion, "emulated-version", "", "offer the APIs and features of an earlier version of Kubernetes, for example 1.35")
	flags.StringVar(&f.APIServer, names.APIServer, "", "a kube-apiserver of another release of Kubernetes (default: the one in localcluster)")
	flags.StringVar(&f.ControllerManager, names.ControllerManager, "", "a kube-controller-manager of another release, no newer than the API server (default: the one in localcluster)")
	flags.StringArrayVar(&f.APIServerArgs, "apiserver-arg", nil, "one more argument for the API server, for example --feature-gates=GenericWorkload=true; may be repeated")
	flags.StringVar(&f.artifacts, "artifacts", "", "a folder like artifacts of the repository, for example of another version: its base is installed, and its scheduler's configuration used (default: what is built in)")
	flags.StringVar(&f.Scheduler, "scheduler", "", "the scheduler's program, \"stock\" for Kubernetes' own, or \"none\" (default: gpu-scheduler beside localcluster)")
	flags.StringVar(&f.schedulerConfig, "scheduler-config", "", "a KubeSchedulerConfiguration for gpu-scheduler (default: the one of artifacts/scheduler)")
	flags.BoolVar(&f.AnyScheduler, "any-scheduler", false, "let any scheduler place Pods that ask for GPUs: without it, they are rejected unless they name a scheduler of the configuration or none")
	flags.StringVar(&f.NodeAgent, "nodeagent", "", "the node agent's program, or \"none\" (default: nodeagent beside localcluster); without it the nodes have no labels about GPUs")
	flags.StringToStringVar(&f.Kubeconfigs, "kubeconfig-of", nil, "PROGRAM=FILE: the kubeconfig that gpu-controller, gpu-scheduler or nodeagent uses instead of its own, for example to go through a proxy; may be repeated")
	flags.StringVar(&f.Dashboard, "dashboard", "", "program that serves the dashboard, or \"none\" (default: kubectl-gputask beside localcluster)")
	flags.StringVar(&f.AuditLog, "audit-log", "", "file to which the API server appends a line of JSON for each request; it is kept when the cluster is deleted")
	flags.DurationVar(&f.StartTimeout, "start-timeout", defaultStartTimeout, "how long the cluster may take to become ready")
	flags.BoolVar(&f.examples, "examples", false, "run the project's examples once the cluster is ready")
	flags.BoolVar(&f.once, "once", false, "stop after the examples, with exit status 0 only if each ended as expected")
	flags.BoolVar(&f.Keep, "keep", false, "keep the directory with its logs when the cluster stops")
}

func newUpCommand() *cobra.Command {
	flags := &upFlags{}
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster and keep it until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			options, err := flags.options()
			if err != nil {
				return err
			}
			options.Out = command.OutOrStdout()
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			// A second signal ends this process at once; the janitor does the rest.
			context.AfterFunc(ctx, stop)
			return cluster.Up(ctx, options)
		},
	}
	flags.addTo(command.Flags())
	return command
}

// options returns the options of the cluster.
func (f *upFlags) options() (options cluster.Options, err error) {
	if err := f.validate(); err != nil {
		return options, err
	}
	options = f.Options
	options.KubernetesVersion, options.ArtifactsPath, options.Clock = version.Get().GitVersion, artifacts.Base, clock.RealClock{}
	if options.Dir, err = filepath.Abs(f.Dir); err != nil {
		return options, err
	}
	if options.Executable, err = os.Executable(); err != nil {
		return options, err
	}
	if !components.Complete() {
		options.Complete = filepath.Join(filepath.Dir(options.Executable), "localcluster")
	}
	options.AfterReady = f.afterReady(options.Executable)
	if options.Profile, err = profile.Select(f.profile, f.nodes); err != nil {
		return options, err
	}
	if options.Artifacts, err = f.manifests(); err != nil {
		return options, err
	}
	return options, errors.Join(setPaths(&options), f.setSchedulerConfig(&options))
}

// manifests returns what is installed: the manifests of this version, or those of a folder.
func (f *upFlags) manifests() (fs.FS, error) {
	if f.artifacts == "" {
		return artifacts.Files, nil
	}
	if _, err := os.Stat(filepath.Join(f.artifacts, artifacts.Base)); err != nil {
		return nil, fmt.Errorf("--artifacts=%s: must be a folder that contains %q: %w", f.artifacts, artifacts.Base, err)
	}
	return os.DirFS(f.artifacts), nil
}

// setPaths makes paths absolute, and sets which of our programs run.
func setPaths(options *cluster.Options) (err error) {
	if options.NoScheduler = options.Scheduler == none; options.Scheduler == stock {
		options.Scheduler = none
	}
	beside := filepath.Dir(options.Executable)
	for _, program := range []struct {
		path *string
		name string // that of ours; empty for another one
	}{
		{&options.APIServer, ""}, {&options.ControllerManager, ""}, {&options.AuditLog, ""},
		{&options.Controller, names.GPUController}, {&options.Scheduler, names.GPUScheduler}, {&options.NodeAgent, names.NodeAgent},
		{&options.Dashboard, names.KubectlGPUTask},
	} {
		switch {
		case program.name != "" && *program.path == none:
			*program.path = ""
		case program.name != "" && *program.path == "":
			*program.path = filepath.Join(beside, program.name)
		case *program.path != "":
			if *program.path, err = filepath.Abs(*program.path); err != nil {
				return err
			}
		}
	}
	return nil
}

// setSchedulerConfig sets the configuration of gpu-scheduler, also if it does not run: somebody else may start it.
func (f *upFlags) setSchedulerConfig(options *cluster.Options) (err error) {
	if f.schedulerConfig == "" {
		options.SchedulerConfig, err = fs.ReadFile(options.Artifacts, artifacts.SchedulerConfig)
	} else {
		options.SchedulerConfig, err = os.ReadFile(f.schedulerConfig)
	}
	if err != nil {
		return fmt.Errorf("reading the scheduler's configuration: %w", err)
	}
	return nil
}

func (f *upFlags) validate() error {
	if f.once && !f.examples {
		return errors.New("--once stops the cluster after the examples: it needs --examples")
	}
	if (f.Scheduler == stock || f.Scheduler == none) && f.schedulerConfig != "" {
		return errors.New("--scheduler-config is for gpu-scheduler: leave out --scheduler=stock or none")
	}
	if f.examples && (f.Controller == none || f.NodeAgent == none) {
		return errors.New("--examples needs gpu-controller and nodeagent: leave out --controller=none and --nodeagent=none")
	}
	return nil
}
