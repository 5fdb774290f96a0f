// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chartvalues writes what the Helm chart says of the programs' flags: their descriptions and
// defaults in values.yaml, and values.schema.json. It reads the lists of flags, which tests of the
// programs compare with the programs, and the manifests, whose arguments the chart has by default. It
// is run in the root of the repository.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chartvalues CHART")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "chartvalues: %v\n", err)
		os.Exit(1)
	}
}

func write(chart string) error {
	values := filepath.Join(chart, "values.yaml")
	text, err := os.ReadFile(values) //nolint:gosec // the argument of who runs it
	if err != nil {
		return err
	}
	base, err := os.ReadFile("hack/chartvalues/schema.yaml")
	if err != nil {
		return err
	}
	schema := map[string]any{}
	if err := yaml.Unmarshal(base, &schema); err != nil {
		return fmt.Errorf("schema.yaml: %w", err)
	}
	result := string(text)
	for _, p := range programs() {
		settings, err := p.settings()
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if result, err = describe(result, p.name, settings); err != nil {
			return err
		}
		if err := addToSchema(schema, p, settings); err != nil {
			return fmt.Errorf("schema.yaml: %s: %w", p.name, err)
		}
	}
	if err := os.WriteFile(values, []byte(result), 0o644); err != nil { //nolint:gosec // a source file
		return err
	}
	encoded := &strings.Builder{}
	encoder := json.NewEncoder(encoded)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(chart, "values.schema.json"), []byte(encoded.String()), 0o644) //nolint:gosec // a source file
}
