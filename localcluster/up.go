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

// upFlags are the flags of "up" as given.
type upFlags struct {
	dir             string
	profile         string
	nodes           []string
	podDuration     time.Duration
	controller      string
	controllerArgs  []string
	emulatedVersion string
	apiServer       string
	apiServerArgs   []string
	artifacts       string
	// controllerManager is the program kube-controller-manager, not one of ours.
	controllerManager string
	scheduler         string
	schedulerConfig   string
	anyScheduler      bool
	nodeAgent         string
	kubeconfigs       map[string]string
	dashboard         string
	auditLog          string
	startTimeout      time.Duration
	keep              bool
	examples          bool
	once              bool
}

func (f *upFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.dir, "dir", dirFromEnvironment(), "the cluster's directory, which is deleted with it (also $"+dirVariable+")")
	flags.StringVar(&f.profile, "profile", "", "a YAML file that describes the simulated nodes")
	flags.StringArrayVar(&f.nodes, "nodes", nil, "simulated nodes in short, for example model=h100-80gb-hbm3,count=100,gpus=8; may be repeated; keys: "+strings.Join(profile.QuickKeys(), ", "))
	flags.DurationVar(&f.podDuration, "pod-duration", defaultPodDuration, "how long the Pods of GPUTasks run, unless annotated")
	flags.StringVar(&f.controller, "controller", "", "the gpu-controller's program, or \"none\" (default: gpu-controller beside localcluster)")
	flags.StringArrayVar(&f.controllerArgs, "controller-arg", nil, "one more argument for the gpu-controller; may be repeated")
	flags.StringVar(&f.emulatedVersion, "emulated-version", "", "offer the APIs and features of an earlier version of Kubernetes, for example 1.35")
	flags.StringVar(&f.apiServer, names.APIServer, "", "a kube-apiserver of another release of Kubernetes (default: the one in localcluster)")
	flags.StringVar(&f.controllerManager, names.ControllerManager, "", "a kube-controller-manager of another release, no newer than the API server (default: the one in localcluster)")
	flags.StringArrayVar(&f.apiServerArgs, "apiserver-arg", nil, "one more argument for the API server, for example --feature-gates=GenericWorkload=true; may be repeated")
	flags.StringVar(&f.artifacts, "artifacts", "", "a folder like artifacts of the repository, for example of another version: its base is installed, and its scheduler's configuration used (default: what is built in)")
	flags.StringVar(&f.scheduler, "scheduler", "", "the scheduler's program, \"stock\" for Kubernetes' own, or \"none\" (default: gpu-scheduler beside localcluster)")
	flags.StringVar(&f.schedulerConfig, "scheduler-config", "", "a KubeSchedulerConfiguration for gpu-scheduler (default: the one of artifacts/scheduler)")
	flags.BoolVar(&f.anyScheduler, "any-scheduler", false, "let any scheduler place Pods that ask for GPUs: without it, they are refused if they name another one than those of the configuration")
	flags.StringVar(&f.nodeAgent, "nodeagent", "", "the node agent's program, or \"none\" (default: nodeagent beside localcluster); without it the nodes have no labels about GPUs")
	flags.StringToStringVar(&f.kubeconfigs, "kubeconfig-of", nil, "PROGRAM=FILE: the kubeconfig that gpu-controller, gpu-scheduler or nodeagent uses instead of its own, for example to go through a proxy; may be repeated")
	flags.StringVar(&f.dashboard, "dashboard", "", "the program that serves the page in a browser, or \"none\" (default: kubectl-gputask beside localcluster)")
	flags.StringVar(&f.auditLog, "audit-log", "", "a file to which the API server appends who requested what, in lines of JSON; it stays when the cluster is gone")
	flags.DurationVar(&f.startTimeout, "start-timeout", defaultStartTimeout, "how long the cluster may take to become ready")
	flags.BoolVar(&f.examples, "examples", false, "run the project's examples once the cluster is ready")
	flags.BoolVar(&f.once, "once", false, "stop after the examples, with exit status 0 only if each ended as expected")
	flags.BoolVar(&f.keep, "keep", false, "keep the directory with its logs when the cluster stops")
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

func (f *upFlags) options() (cluster.Options, error) {
	if err := f.validate(); err != nil {
		return cluster.Options{}, err
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return cluster.Options{}, err
	}
	executable, err := os.Executable()
	if err != nil {
		return cluster.Options{}, err
	}
	nodes, err := profile.Select(f.profile, f.nodes)
	if err != nil {
		return cluster.Options{}, err
	}
	manifests, err := f.manifests()
	if err != nil {
		return cluster.Options{}, err
	}
	options := cluster.Options{
		Dir:               dir,
		Executable:        executable,
		Profile:           nodes,
		KubernetesVersion: version.Get().GitVersion,
		PodDuration:       f.podDuration,
		Artifacts:         manifests,
		ArtifactsPath:     artifacts.Base,
		ControllerArgs:    f.controllerArgs,
		EmulatedVersion:   f.emulatedVersion,
		APIServerArgs:     f.apiServerArgs,
		AnyScheduler:      f.anyScheduler,
		NoScheduler:       f.scheduler == none,
		Kubeconfigs:       f.kubeconfigs,
		StartTimeout:      f.startTimeout,
		Keep:              f.keep,
		Clock:             clock.RealClock{},
		AfterReady:        f.afterReady(executable),
	}
	return options, errors.Join(f.setPrograms(&options, executable), f.setFiles(&options), f.setGPUScheduler(&options, executable))
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

// setPrograms sets which of our other programs run.
func (f *upFlags) setPrograms(options *cluster.Options, executable string) (err error) {
	if options.Controller, err = programPath(f.controller, executable, names.GPUController); err != nil {
		return err
	}
	if options.NodeAgent, err = programPath(f.nodeAgent, executable, names.NodeAgent); err != nil {
		return err
	}
	options.Dashboard, err = programPath(f.dashboard, executable, names.KubectlGPUTask)
	return err
}

// setFiles sets the paths of what is no program of ours.
func (f *upFlags) setFiles(options *cluster.Options) (err error) {
	if options.APIServer, err = absolute(f.apiServer); err != nil {
		return err
	}
	if options.ControllerManager, err = absolute(f.controllerManager); err != nil {
		return err
	}
	options.AuditLog, err = absolute(f.auditLog)
	return err
}

// setGPUScheduler sets the program of gpu-scheduler, unless another scheduler or none is to run, and its configuration: somebody
// else may start it.
func (f *upFlags) setGPUScheduler(options *cluster.Options, executable string) (err error) {
	if f.scheduler != stock && f.scheduler != none {
		if options.Scheduler, err = programPath(f.scheduler, executable, names.GPUScheduler); err != nil {
			return err
		}
	}
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

// programPath returns the path of one of our programs, or "" if it is not to run.
func programPath(flag, executable, name string) (string, error) {
	switch flag {
	case none:
		return "", nil
	case "":
		return filepath.Join(filepath.Dir(executable), name), nil
	default:
		return filepath.Abs(flag)
	}
}

// absolute returns an absolute path; empty for an empty one.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

func (f *upFlags) validate() error {
	if f.once && !f.examples {
		return errors.New("--once stops the cluster after the examples: it needs --examples")
	}
	if (f.scheduler == stock || f.scheduler == none) && f.schedulerConfig != "" {
		return errors.New("--scheduler-config is for gpu-scheduler: leave out --scheduler=stock or none")
	}
	if f.examples && (f.controller == none || f.nodeAgent == none) {
		return errors.New("--examples needs gpu-controller and nodeagent: leave out --controller=none and --nodeagent=none")
	}
	return nil
}
