// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"os"

	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/artifacts"
)

// writeSchedulerConfig writes the shipped configuration with a short time limit for gangs that run
// partly, and a journal.
func writeSchedulerConfig(path, journal string, partialSeconds int) error {
	text, err := artifacts.Files.ReadFile(artifacts.SchedulerConfig)
	if err != nil {
		return err
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return err
	}
	for _, profile := range list(config["profiles"]) {
		for _, plugin := range list(object(profile)["pluginConfig"]) {
			if object(plugin)["name"] != "GPUGang" {
				continue
			}
			args := object(object(plugin)["args"])
			args["partialGangTimeoutSeconds"] = partialSeconds
			args["journal"] = map[string]any{"directory": journal, "maxMegabytes": 2, "port": 0}
		}
	}
	if text, err = yaml.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func object(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}

func list(value any) []any {
	items, _ := value.([]any)
	return items
}
