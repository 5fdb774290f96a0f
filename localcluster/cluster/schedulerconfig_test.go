// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/artifacts"
)

func TestTheShippedSchedulerConfigurationWorksLocally(t *testing.T) {
	shipped, err := artifacts.Files.ReadFile(artifacts.SchedulerConfig)
	if err != nil {
		t.Fatal(err)
	}
	local, err := localSchedulerConfig(shipped, "/dir/scheduler.kubeconfig", map[string]any{"directory": "/dir/journal", "port": 7})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		ClientConnection struct {
			Kubeconfig string
			QPS        float64
		}
		LeaderElection struct{ LeaderElect *bool }
		Profiles       []struct {
			SchedulerName string
			PluginConfig  []struct {
				Name string
				Args struct{ Journal map[string]any }
			}
		}
	}
	if err := yaml.Unmarshal(local, &got); err != nil {
		t.Fatal(err)
	}
	if got.ClientConnection.Kubeconfig != "/dir/scheduler.kubeconfig" || got.ClientConnection.QPS == 0 {
		t.Errorf("the connection is %+v", got.ClientConnection)
	}
	if got.LeaderElection.LeaderElect == nil || *got.LeaderElection.LeaderElect {
		t.Error("the only scheduler waits for a lease")
	}
	names := map[string]int{}
	for _, profile := range got.Profiles {
		names[profile.SchedulerName] = len(profile.PluginConfig)
		for _, plugin := range profile.PluginConfig {
			if hasJournal := plugin.Args.Journal["directory"] == "/dir/journal"; hasJournal != (plugin.Name == gangPlugin) {
				t.Errorf("profile %s, plugin %s: the journal is %v", profile.SchedulerName, plugin.Name, plugin.Args.Journal)
			}
		}
	}
	if names["default-scheduler"] == 0 || names["default-scheduler"] != names["gpu-scheduler"] {
		t.Errorf("plugin arguments by profile: %v; default-scheduler must be as gpu-scheduler", names)
	}
}

func TestASchedulerConfigurationWithoutProfilesIsRefused(t *testing.T) {
	for name, config := range map[string]string{
		"none":              "kind: KubeSchedulerConfiguration",
		"one of wrong type": "profiles: [3]",
		"no YAML":           "{",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := localSchedulerConfig([]byte(config), "k", nil); err == nil || !strings.Contains(err.Error(), "the scheduler's configuration") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAProfileForPodsThatNameNoSchedulerIsKept(t *testing.T) {
	local, err := localSchedulerConfig([]byte("profiles: [{schedulerName: default-scheduler}, {schedulerName: other}]"), "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	if count := strings.Count(string(local), "schedulerName:"); count != 2 {
		t.Errorf("there are %d profiles, want the 2 that were given:\n%s", count, local)
	}
}

func TestWhichSchedulersALocalClusterHas(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"": "default-scheduler",
		"profiles: [{schedulerName: gpu-scheduler}, {schedulerName: other}, {}, {schedulerName: default-scheduler}]": "default-scheduler gpu-scheduler other",
	} {
		names, err := schedulerNames([]byte(config))
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%q: %s (%v), want %s", config, got, err, want)
		}
	}
}
