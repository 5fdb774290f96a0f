// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

const (
	discoveryRetry = time.Second
	// discoveryLimit is how long the API server may be unavailable when the scheduler
	// starts. Then it exits, and is started again by whatever supervises it.
	discoveryLimit = time.Minute
)

// emulateAPIServer makes kube-scheduler behave as one of the API server's version would, if
// that is older: it would wait forever for APIs that an older API server does not serve. A
// version that was chosen with --emulated-version stays. It must be called before the
// feature gates are set.
func emulateAPIServer(ctx context.Context, opts *options.Options) error {
	for _, flags := range opts.Flags.FlagSets {
		if flag := flags.Lookup("emulated-version"); flag != nil && flag.Changed {
			return nil
		}
	}
	config, err := clientConfig(ctx, opts)
	if err != nil {
		return err
	}
	info, err := serverVersion(ctx, config)
	if err != nil {
		return fmt.Errorf("reading the API server's version: %w", err)
	}
	served, err := servedVersion(info)
	if err != nil {
		return fmt.Errorf("the API server's version: %w", err)
	}
	own, adjustable := opts.ComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent).(basecompatibility.MutableEffectiveVersion)
	if !adjustable || !served.LessThan(own.EmulationVersion()) {
		return nil
	}
	own.SetEmulationVersion(served)
	if err := errors.Join(own.Validate()...); err != nil {
		return fmt.Errorf("the API server's version %s is not supported: %w", info.GitVersion, err)
	}
	klog.FromContext(ctx).Info("The API server is older than this scheduler, which therefore emulates its version", "version", served)
	return nil
}

// clientConfig returns how to reach the API server, as the flags and the configuration say.
func clientConfig(ctx context.Context, opts *options.Options) (*rest.Config, error) {
	kubeconfig := ""
	switch {
	case opts.ConfigFile != "":
		loaded, err := options.LoadConfigFromFile(klog.FromContext(ctx), opts.ConfigFile)
		if err != nil {
			return nil, err
		}
		kubeconfig = loaded.ClientConnection.Kubeconfig
	case opts.Deprecated != nil:
		kubeconfig = opts.Deprecated.Kubeconfig
	}
	return clientcmd.BuildConfigFromFlags(opts.Master, kubeconfig)
}

// serverVersion waits until the API server states its version.
func serverVersion(ctx context.Context, config *rest.Config) (info *apiversion.Info, err error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	waited := wait.PollUntilContextTimeout(ctx, discoveryRetry, discoveryLimit, true, func(context.Context) (bool, error) {
		if info, err = client.ServerVersion(); err != nil {
			klog.FromContext(ctx).Error(err, "The API server's version can't be read; trying again")
		}
		return err == nil, nil
	})
	return info, errors.Join(waited, err)
}

// servedVersion returns the minor version whose APIs an API server serves.
func servedVersion(info *apiversion.Info) (*version.Version, error) {
	major, minor := info.Major, info.Minor
	if info.EmulationMajor != "" && info.EmulationMinor != "" {
		major, minor = info.EmulationMajor, info.EmulationMinor
	}
	return version.ParseMajorMinor(major + "." + leadingDigits(minor))
}

// leadingDigits drops what some providers append to the minor version, as in "35+".
func leadingDigits(minor string) string {
	for i, char := range minor {
		if char < '0' || char > '9' {
			return minor[:i]
		}
	}
	return minor
}
