// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/identity"
	"falldio.github.io/gpu-controller/pkg/leadership"
	"falldio.github.io/gpu-controller/scheduler/history"
	"falldio.github.io/gpu-controller/scheduler/planner"
	"falldio.github.io/gpu-controller/scheduler/plugins/claims"
	"falldio.github.io/gpu-controller/scheduler/plugins/devices"
	"falldio.github.io/gpu-controller/scheduler/plugins/gang"
	"falldio.github.io/gpu-controller/scheduler/plugins/network"
	"falldio.github.io/gpu-controller/scheduler/plugins/packing"
	"falldio.github.io/gpu-controller/scheduler/protection"
)

// newCommand returns kube-scheduler's command with our plugins. It is assembled here from
// kube-scheduler's parts instead of by app.NewSchedulerCommand: the plugins need to know
// whether this process leads, and that takes the lock of its lease.
func newCommand() *cobra.Command {
	opts := options.NewOptions()
	command := &cobra.Command{
		Use:  "gpu-scheduler",
		Long: "gpu-scheduler is kube-scheduler with plugins for GPUs: it places whole gangs on exact GPUs.",
		Args: cobra.NoArgs,
		PersistentPreRunE: func(command *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			if err := emulateAPIServer(command.Context(), opts); err != nil {
				return err
			}
			return opts.ComponentGlobalsRegistry.Set() // the feature gates
		},
		RunE: func(command *cobra.Command, _ []string) error { return run(command, opts) },
	}
	verflag.AddFlags(opts.Flags.FlagSet("global"))
	globalflag.AddGlobalFlags(opts.Flags.FlagSet("global"), command.Name(), logs.SkipLoggingConfigurationFlags())
	for _, flags := range opts.Flags.FlagSets {
		command.Flags().AddFlagSet(flags)
	}
	columns, _, _ := term.TerminalSize(command.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(command, *opts.Flags, columns)
	return command
}

func run(command *cobra.Command, opts *options.Options) error {
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return err
	}
	if err := checkGates(gates); err != nil {
		return err
	}
	cliflag.PrintFlags(command.Flags())
	signals := genericapiserver.SetupSignalContext()
	ctx, stop := context.WithCancel(context.WithoutCancel(signals))
	defer stop()
	instance, err := identity.New()
	if err != nil {
		return err
	}
	guard := leadership.NewGuard(clock.RealClock{})
	shared := planner.NewShared(guard, instance)
	config, scheduler, err := setup(ctx, opts,
		app.WithPlugin(gang.Name, gang.Factory(shared)),
		app.WithPlugin(devices.Name, devices.Factory(shared)),
		app.WithPlugin(claims.Name, claims.Factory(shared)),
		app.WithPlugin(packing.Name, packing.New),
		app.WithPlugin(network.Name, network.NewFactory()),
	)
	if err != nil {
		return err
	}
	protection.Protect(scheduler, shared)
	if err := watchLease(ctx, config, guard, instance); err != nil {
		return err
	}
	if err := serveJournal(ctx, config, shared); err != nil {
		return err
	}
	reportUnready(config, shared)
	keeper := keepHistory(ctx, config, guard, shared)
	go func() {
		<-signals.Done()
		if keeper != nil {
			keeper.Close(ctx) // as long as this process leads
		}
		stop()
	}()
	opts.ComponentGlobalsRegistry.AddMetrics()
	return app.Run(ctx, config, scheduler)
}

// keepHistory keeps what the planner learns from the past over restarts, until ctx ends. It returns nil if nothing is
// to be kept.
func keepHistory(ctx context.Context, config *schedulerconfig.CompletedConfig, guard *leadership.Guard, shared *planner.Shared) *history.Keeper {
	learner := shared.Get()
	if learner == nil || learner.HistoryPeriod() == 0 {
		return nil
	}
	namespace, name := leaseName(&config.ComponentConfig.LeaderElection)
	place := history.Place{Namespace: namespace, Name: name + "-history", Period: learner.HistoryPeriod()}
	keeper := history.NewKeeper(config.Client, clock.RealClock{}, guard, place, learner.History())
	go keeper.Run(ctx)
	return keeper
}

// checkGates returns an error if kube-scheduler's own gang scheduling is switched on: it would
// wait for all members of a gang to be queued, which GPUGang lets happen one by one.
func checkGates(gates featuregate.FeatureGate) error {
	if gates.Enabled(features.GenericWorkload) {
		return fmt.Errorf("--feature-gates: %s must be off in gpu-scheduler, whose plugin GPUGang schedules gangs; it may be on in the API server", features.GenericWorkload)
	}
	return nil
}

// watchLease lets the guard track whether this process leads. Without leader election,
// every process schedules Pods without GPUs, but only one of them schedules Pods with
// GPUs.
func watchLease(ctx context.Context, config *schedulerconfig.CompletedConfig, guard *leadership.Guard, instance string) error {
	if election := config.LeaderElection; election != nil {
		election.Lock = guard.Watch(election.Lock, election.RenewDeadline)
		return nil
	}
	lease, err := leaseWithoutElection(config.KubeConfig, &config.ComponentConfig.LeaderElection, instance)
	if err != nil {
		return err
	}
	lease.Lock = guard.Watch(lease.Lock, lease.RenewDeadline)
	go func() {
		if err := guard.Hold(ctx, lease); err != nil {
			klog.FromContext(ctx).Error(err, "Stopping", "lease", lease.Lock.Describe())
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
	}()
	return nil
}
