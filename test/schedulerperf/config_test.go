// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulerperf

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	fit    = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: default-scheduler\n  pluginConfig:\n  - {name: NodeResourcesFit, args: {theirs: true}}\n"
	more   = fit + "  plugins: {}\n"
	global = fit + "percentageOfNodesToScore: 5\n"
)

func TestEveryProfileBecomesThatOfOrdinaryPods(t *testing.T) {
	t.Parallel()
	names, err := Profiles()
	if err != nil || len(names) == 0 {
		t.Fatalf("profiles %v, error %v", names, err)
	}
	for _, name := range names {
		text, err := Config(name)
		if err != nil {
			t.Fatal(err)
		}
		config := map[string]any{}
		if err := yaml.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		profiles := profilesOf(config)
		if len(profiles) != 1 || profiles[0]["schedulerName"] != defaultProfile || profiles[0]["plugins"] == nil {
			t.Errorf("%s: profiles %v", name, profiles)
		}
	}
	if _, err := Config("other"); err == nil {
		t.Error("an unknown profile is no error")
	}
}

func TestArgumentsOfATestCaseReplaceOurs(t *testing.T) {
	t.Parallel()
	text, err := Config("gpu-scheduler-spreading", []byte(fit))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "theirs: true") || strings.Contains(string(text), "LeastAllocated") || !strings.Contains(string(text), "GPUGangArgs") {
		t.Errorf("got\n%s", text)
	}
}

func TestAConfigurationWithMoreThanArgumentsIsRefused(t *testing.T) {
	t.Parallel()
	names, err := Profiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, upstream := range []string{more, global} {
		if !slices.ContainsFunc(names, func(name string) bool { _, err := Config(name, []byte(upstream)); return err != nil }) {
			t.Errorf("no error for\n%s", upstream)
		}
	}
}
