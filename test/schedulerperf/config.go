// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulerperf

import (
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/artifacts"
)

// defaultProfile is the profile of Pods that do not name a scheduler, which all of
// upstream's are.
const defaultProfile = "default-scheduler"

// Profiles returns the names of the profiles of our configuration.
func Profiles() ([]string, error) {
	config, err := ourConfig()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, profile := range profilesOf(config) {
		name, _ := profile["schedulerName"].(string)
		names = append(names, name)
	}
	return names, nil
}

// Config returns our configuration with one of its profiles applied to Pods that do not
// name a scheduler. The arguments of plugins in other configurations, such as those that
// some of upstream's test cases have, replace those of our profile.
func Config(profile string, changes ...[]byte) ([]byte, error) {
	config, err := ourConfig()
	if err != nil {
		return nil, err
	}
	profiles := profilesOf(config)
	at := slices.IndexFunc(profiles, func(p map[string]any) bool { return p["schedulerName"] == profile })
	if at < 0 {
		return nil, fmt.Errorf("%s: there is no profile %q", artifacts.SchedulerConfig, profile)
	}
	one := profiles[at]
	one["schedulerName"] = defaultProfile
	arguments := objects(one["pluginConfig"])
	for _, change := range changes {
		if arguments, err = withArguments(arguments, change); err != nil {
			return nil, err
		}
	}
	one["pluginConfig"] = arguments
	config["profiles"] = []any{one}
	return yaml.Marshal(config)
}

// withArguments adds the arguments of the only profile in a configuration. One that changes
// anything else is an error: it would not be tested.
func withArguments(arguments []map[string]any, change []byte) ([]map[string]any, error) {
	if len(change) == 0 {
		return arguments, nil
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(change, &config); err != nil {
		return nil, err
	}
	profiles := profilesOf(config)
	if len(profiles) != 1 || !onlyHas(config, "apiVersion", "kind", "profiles") || !onlyHas(profiles[0], "schedulerName", "pluginConfig") {
		return nil, fmt.Errorf("the configuration has more than arguments of plugins:\n%s", change)
	}
	for _, one := range objects(profiles[0]["pluginConfig"]) {
		arguments = slices.DeleteFunc(arguments, func(a map[string]any) bool { return a["name"] == one["name"] })
		arguments = append(arguments, one)
	}
	return arguments, nil
}

func onlyHas(object map[string]any, keys ...string) bool {
	for key := range object {
		if !slices.Contains(keys, key) {
			return false
		}
	}
	return true
}

func ourConfig() (map[string]any, error) {
	text, err := artifacts.Files.ReadFile(artifacts.SchedulerConfig)
	if err != nil {
		return nil, err
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", artifacts.SchedulerConfig, err)
	}
	return config, nil
}

func profilesOf(config map[string]any) []map[string]any { return objects(config["profiles"]) }

// objects returns the objects in a list.
func objects(list any) []map[string]any {
	items, _ := list.([]any)
	found := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if object, isObject := item.(map[string]any); isObject {
			found = append(found, object)
		}
	}
	return found
}
