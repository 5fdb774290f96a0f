// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/test/programs"
)

// release is the name of the release and namespace its namespace, as in docs/installation.md.
const (
	release   = "gpu-controller"
	namespace = "gpu-controller-system"
)

func TestMain(m *testing.M) {
	if err := buildHelm(); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// chartFolder is the folder of the chart.
func chartFolder() string { return filepath.Join(programs.Root(), "charts", "gpu-controller") }

// buildHelm builds Helm from its module, in the version that test/chart/helm names.
func buildHelm() error {
	return programs.Build(programs.Command{Environment: "CGO_ENABLED=0", Args: []string{
		"go", "build", "-C", filepath.Join("test", "chart", "helm"), "-ldflags", "-s -w", "-o", programs.Binary("helm"), "helm.sh/helm/v4/cmd/helm",
	}})
}

// values are values for the chart, as in a file for --values.
type values map[string]any

// helm runs Helm with folders of its own, and returns its output.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	command := exec.CommandContext(t.Context(), programs.Binary("helm"), args...)
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Run(); err != nil {
		return output.String(), fmt.Errorf("helm %s: %w: %s", args[0], err, withoutRemarks(problems.String()))
	}
	return output.String(), nil
}

// withoutRemarks leaves out what Helm says of each symbolic link in the chart.
func withoutRemarks(output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "level=INFO") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// valuesFile writes values into a file. Helm takes its path for several paths if there is a comma in it,
// and the path has the name of the test.
func valuesFile(t *testing.T, chosen values) string {
	t.Helper()
	text, err := yaml.Marshal(chosen)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newest is the newest version of Kubernetes that the chart is for.
const newest = "1.37"

// render returns what the chart installs in a namespace, or Helm's error.
func render(t *testing.T, in string, chosen values) ([]*unstructured.Unstructured, error) {
	t.Helper()
	return renderFor(t, newest, in, chosen)
}

// renderFor is render for a version of Kubernetes.
func renderFor(t *testing.T, version, in string, chosen values) ([]*unstructured.Unstructured, error) {
	t.Helper()
	text, err := helm(t, "template", release, chartFolder(), "--kube-version="+version, "--namespace="+in, "--values="+valuesFile(t, chosen))
	if err != nil {
		return nil, err
	}
	return decode(t, text), nil
}

// mustRender is render in the namespace of docs/installation.md, for values that must not be refused.
func mustRender(t *testing.T, chosen values) []*unstructured.Unstructured {
	t.Helper()
	objects, err := render(t, namespace, chosen)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// decode returns the objects of a text with several documents.
func decode(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(text, "\n---") {
		encoded, err := yaml.YAMLToJSONStrict([]byte(document))
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if string(encoded) == "null" {
			continue // comments only
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(encoded); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, object)
	}
	return objects
}

// find returns the object of a kind and name.
func find(t *testing.T, objects []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			return object
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}
