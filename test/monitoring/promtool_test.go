// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/test/programs"
)

func TestMain(m *testing.M) {
	if err := buildPromtool(); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// buildPromtool builds promtool from its module, in the version that test/monitoring/promtool names, without the
// clients of all clouds, which only find what to scrape.
func buildPromtool() error {
	return programs.Build(programs.Command{Environment: "CGO_ENABLED=0", Args: []string{
		"go", "build", "-C", filepath.Join("test", "monitoring", "promtool"), "-tags", "remove_all_sd", "-ldflags", "-s -w",
		"-o", programs.Binary("promtool"), "github.com/prometheus/prometheus/cmd/promtool",
	}})
}

// promtool runs promtool in a folder, and returns what it prints.
func promtool(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), programs.Binary("promtool"), args...)
	command.Dir = folder
	output, err := command.CombinedOutput()
	return string(output), err
}

// write writes an object as YAML into a file.
func write(t *testing.T, path string, object any) {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// rules are those of a PrometheusRule, and of a file for Prometheus.
type rules struct {
	Groups []group `json:"groups"`
}

type group struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

type rule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// readRules returns our alerts.
func readRules(t *testing.T) *rules {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(programs.Root(), "artifacts", "monitoring", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       rules          `json:"spec"`
	}
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		t.Fatal(err)
	}
	return &object.Spec
}

// alerts returns all alerts by their names.
func (r *rules) alerts() map[string]rule {
	all := map[string]rule{}
	for _, group := range r.Groups {
		for _, one := range group.Rules {
			all[one.Alert] = one
		}
	}
	return all
}
