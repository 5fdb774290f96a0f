// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"maps"

	"sigs.k8s.io/yaml"
)

// defaultScheduler is the schedulerName of Pods that do not set one.
const defaultScheduler = "default-scheduler"

// gangPlugin is the plugin whose arguments say where the scheduler's journal is.
const gangPlugin = "GPUGang"

// localSchedulerConfig adapts the configuration of an in-cluster scheduler to the
// only scheduler of a local cluster: with a kubeconfig and without leader election.
// Its first profile also serves Pods that do not set a scheduler.
func localSchedulerConfig(config []byte, kubeconfig string, journal map[string]any) ([]byte, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(config, &fields); err != nil {
		return nil, fmt.Errorf("the scheduler's configuration: %w", err)
	}
	client, _ := fields["clientConnection"].(map[string]any)
	if client == nil {
		client = map[string]any{}
	}
	client["kubeconfig"] = kubeconfig
	fields["clientConnection"] = client
	fields["leaderElection"] = map[string]any{"leaderElect": false}
	profiles, err := withDefaultProfile(fields["profiles"])
	if err != nil {
		return nil, err
	}
	if journal != nil {
		keepJournal(profiles, journal)
	}
	fields["profiles"] = profiles
	return yaml.Marshal(fields)
}

func withDefaultProfile(value any) ([]any, error) {
	profiles, _ := value.([]any)
	for _, profile := range profiles {
		if fields, ok := profile.(map[string]any); ok && fields["schedulerName"] == defaultScheduler {
			return profiles, nil
		}
	}
	if len(profiles) == 0 {
		return nil, errors.New("the scheduler's configuration: profiles: at least one is needed")
	}
	first, ok := profiles[0].(map[string]any)
	if !ok {
		return nil, errors.New("the scheduler's configuration: profiles[0]: must be an object")
	}
	other := maps.Clone(first)
	other["schedulerName"] = defaultScheduler
	return append(profiles, other), nil
}

// keepJournal has the scheduler write the journal of its decisions, unless the configuration says something else about
// it.
func keepJournal(profiles []any, journal map[string]any) {
	for _, profile := range profiles {
		fields, _ := profile.(map[string]any)
		plugins, _ := fields["pluginConfig"].([]any)
		for _, plugin := range plugins {
			config, _ := plugin.(map[string]any)
			args, _ := config["args"].(map[string]any)
			if config["name"] == gangPlugin && args != nil && args["journal"] == nil {
				args["journal"] = journal
			}
		}
	}
}
