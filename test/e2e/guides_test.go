// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/kubectl-gputask/template"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

// applyManifest does what users do with a manifest: kubectl apply, on the server's side and with strict validation.
func (s *suite) applyManifest(manifest []byte, args ...string) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, manifest, 0o600); err != nil {
		s.Fatal(err)
	}
	s.mustKubectl(append([]string{"apply", "--server-side", "--validate=strict", "--namespace=" + s.namespace, "-f", file}, args...)...)
}

// TestTheTemplatesRun creates what "kubectl gputask new" prints, as it is: tasks run to their end, and servers run.
func TestTheTemplatesRun(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	manifest := func(name string) []byte {
		out, errOut, code := s.gputask("new", name).outcome(s)
		if code != 0 {
			t.Fatalf("new %s: %s", name, errOut)
		}
		return []byte(out)
	}
	s.applyManifest(manifest("volume")) // the others use it
	for _, name := range template.Names() {
		s.applyManifest(manifest(name))
	}
	for _, name := range template.Names() {
		var object metav1.PartialObjectMetadata
		first, _, _ := bytes.Cut(manifest(name), []byte("\n---\n"))
		if err := yaml.Unmarshal(first, &object); err != nil {
			t.Fatal(err)
		}
		switch object.Kind {
		case "GPUTask":
			s.waitForPhase(object.Name, v1.PhaseSucceeded)
		case "Deployment":
			s.eventually(name+" serves", func() (bool, string) {
				deployment, err := s.cluster.kube.AppsV1().Deployments(s.namespace).Get(t.Context(), object.Name, metav1.GetOptions{})
				return err == nil && deployment.Status.AvailableReplicas == *deployment.Spec.Replicas, deployment.Status.String()
			})
		case "PersistentVolumeClaim":
			s.mustKubectl("wait", "--namespace="+s.namespace, "pvc/"+object.Name, "--for=jsonpath={.status.phase}=Bound", "--timeout=30s")
		default:
			t.Errorf("%s: nobody checks whether %s %s runs", name, object.Kind, object.Name)
		}
	}
	s.mustKubectl("delete", "--namespace="+s.namespace, "pvc", "--all", "--timeout=30s")
}

// TestTheAPIServerAcceptsWhatGuidesShow applies each object that a guide shows, of any kind, in a dry run.
func TestTheAPIServerAcceptsWhatGuidesShow(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	files, err := filepath.Glob(filepath.Join(programs.Root(), "docs", "guides", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, shown := range yamlBlocks(text) {
			if strings.Contains(string(shown.text), "apiVersion:") { // others are values of the chart: test/chart
				count++
				t.Logf("%s:%d", filepath.Base(file), shown.line)
				s.applyManifest(shown.text, "--dry-run=server")
			}
		}
	}
	if count < 6 {
		t.Errorf("found only %d manifests in the guides: is their form another one?", count)
	}
}
