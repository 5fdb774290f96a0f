// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/localcluster/names"
	"falldio.github.io/gpu-controller/localcluster/profile"
)

// Options configure the cluster.
type Options struct {
	// Dir is the cluster's directory, as an absolute path.
	Dir string
	// Executable is localcluster itself. "Executable component NAME ARGS" is a
	// component, "Executable janitor DIR" the janitor.
	Executable string
	// Complete is the localcluster that has all components, if Executable has only those that the page
	// needs. Complete, Controller and Scheduler may then be missing still: they start once they are built.
	Complete string
	// Profile are the simulated nodes.
	Profile *profile.Profile
	// KubernetesVersion is the release of the components in Executable, such as v1.37.1.
	KubernetesVersion string
	// APIServer and ControllerManager are programs of another release of Kubernetes. They run
	// instead of the components in Executable, unless they are empty.
	APIServer, ControllerManager string
	// PodDuration is how long Pods of GPUTasks run without an annotation.
	PodDuration time.Duration
	// Artifacts holds a kustomization in the folder ArtifactsPath, to be applied
	// before anything but the API server runs. Without it nothing is applied.
	Artifacts     fs.FS
	ArtifactsPath string
	// Controller is the gpu-controller's program. None runs if it is empty.
	Controller string
	// ControllerArgs are added to the gpu-controller's arguments.
	ControllerArgs []string
	// EmulatedVersion is the minor version of Kubernetes, such as 1.35, whose APIs and
	// features its components offer: their own if it is empty.
	EmulatedVersion string
	// APIServerArgs are added to the API server's arguments.
	APIServerArgs []string
	// AuditLog is the file to which the API server appends an audit event for each request.
	// There is none if it is empty.
	AuditLog string
	// Scheduler is gpu-scheduler's program, and SchedulerConfig its configuration.
	// kube-scheduler runs if it is empty.
	Scheduler       string
	SchedulerConfig []byte
	// AnyScheduler lets any scheduler place Pods that ask for GPUs, instead of only those of
	// SchedulerConfig and the one of Pods that name none.
	AnyScheduler bool
	// NoScheduler runs no scheduler at all.
	NoScheduler bool
	// NodeAgent is the node agent's program. None runs if it is empty; the nodes
	// have no labels about GPUs then.
	NodeAgent string
	// Kubeconfigs are the kubeconfigs that gpu-controller, gpu-scheduler and nodeagent use instead of
	// their own, by these names: those of proxies, for example.
	Kubeconfigs map[string]string
	// Dashboard is the program kubectl-gputask, which serves the page in a browser. None is served if it is empty.
	Dashboard string
	// StartTimeout is how long the cluster may take to become ready.
	StartTimeout time.Duration
	// Keep keeps the directory at the end.
	Keep bool
	// Out receives the progress.
	Out io.Writer
	// Clock is the real one, except in tests.
	Clock clock.Clock
	// AfterReady runs once the cluster is ready. If it returns an error, the
	// cluster stops and Up returns that error, or nil for ErrStop. Optional.
	AfterReady func(context.Context, Running) error
}

// Running is a cluster that is ready.
type Running struct {
	Dir        string
	Kubeconfig string
	// Dashboard is the address of the page in a browser, with its secret; empty if none is served.
	Dashboard string
	// Config has the rights of an administrator and no rate limit.
	Config *rest.Config
	Out    io.Writer
}

// ErrStop is what AfterReady returns to stop the cluster without an error.
var ErrStop = errors.New("stop the cluster")

func (o *Options) validate() error {
	return errors.Join(
		o.validateLater(names.GPUController, "controller", o.Controller),
		o.validateLater(names.GPUScheduler, "scheduler", o.Scheduler),
		validateProgram(names.NodeAgent, "nodeagent", o.NodeAgent),
		validateProgram(names.KubectlGPUTask, "dashboard", o.Dashboard),
		validateOtherRelease(names.APIServer, o.APIServer),
		validateOtherRelease(names.ControllerManager, o.ControllerManager),
		o.validateKubeconfigs(),
	)
}

func (o *Options) validateKubeconfigs() error {
	ours := []string{names.GPUController, names.GPUScheduler, names.NodeAgent}
	for name := range o.Kubeconfigs {
		if !slices.Contains(ours, name) {
			return fmt.Errorf("--kubeconfig-of: %q must be one of %s", name, strings.Join(ours, ", "))
		}
	}
	return nil
}

// validateProgram checks that one of our programs is executable; an empty path is valid.
// validateLater checks a program that may still be missing if Complete is set.
func (o *Options) validateLater(name, flag, path string) error {
	if _, err := os.Stat(path); o.Complete != "" && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return validateProgram(name, flag, path)
}

func validateProgram(name, flag, path string) error {
	if path == "" {
		return nil
	}
	err := executable(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %[1]s at %[3]s: build it with `make build`, name another one with --%[2]s=PATH, or run without it with --%[2]s=none", name, flag, path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// validateOtherRelease checks that a component of another release of Kubernetes is executable; an
// empty path is valid. The flag with its path has the component's name.
func validateOtherRelease(name, path string) error {
	if path == "" {
		return nil
	}
	if err := executable(path); err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	return nil
}

// executable returns an error if a path does not lead to a program.
func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is no program", path)
	}
	return nil
}
