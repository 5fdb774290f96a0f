// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/scheduler/eventfilter"
	"falldio.github.io/gpu-controller/scheduler/replaced"
)

// setup makes the scheduler that the options describe. app.Setup would do the same, but with informers
// that don't tell Pods of the same name apart: see package replaced.
func setup(ctx context.Context, opts *options.Options, plugins ...app.Option) (*schedulerconfig.CompletedConfig, *scheduler.Scheduler, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, nil, err
	}
	opts.ComponentConfig = defaults
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	config, err := opts.Config(ctx)
	if err != nil {
		return nil, nil, err
	}
	config.InformerFactory = replaced.Factory(config.InformerFactory)
	completed := config.Complete()
	registry := runtime.Registry{}
	for _, plugin := range plugins {
		if err := plugin(registry); err != nil {
			return nil, nil, err
		}
	}
	var profiles []schedulerapi.KubeSchedulerProfile
	with := &completed.ComponentConfig
	made, err := scheduler.New(ctx, completed.Client, completed.InformerFactory, completed.DynInformerFactory,
		eventfilter.Wrap(completed.EventBroadcaster.NewRecorder, clock.RealClock{}),
		scheduler.WithComponentConfigVersion(with.APIVersion),
		scheduler.WithKubeConfig(completed.KubeConfig),
		scheduler.WithProfiles(with.Profiles...),
		scheduler.WithPercentageOfNodesToScore(with.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
		scheduler.WithPodMaxBackoffSeconds(with.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(with.PodInitialBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(completed.PodMaxInUnschedulablePodsDuration),
		scheduler.WithExtenders(with.Extenders...),
		scheduler.WithParallelism(with.Parallelism),
		scheduler.WithBuildFrameworkCapturer(func(one schedulerapi.KubeSchedulerProfile) { profiles = append(profiles, one) }),
	)
	if err != nil {
		return nil, nil, err
	}
	if err := options.LogOrWriteConfig(klog.FromContext(ctx), opts.WriteConfigTo, with, profiles); err != nil {
		return nil, nil, err
	}
	return &completed, made, nil
}
