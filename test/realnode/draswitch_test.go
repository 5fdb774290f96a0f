// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/programs"
)

// TestANodeMovesToDRAAndBack applies the manifests that we ship, and moves the node by its label
// alone. The Pods are the same before, between and after.
func TestANodeMovesToDRAAndBack(t *testing.T) {
	s := newScene(t)
	if err := s.node.agent.Stop(); err != nil {
		t.Error(err)
	}
	s.waitForAllocatable(v1.ResourceGPU, 0)
	s.applyBoth()

	s.waitForAllocatable(v1.ResourceGPU, gpus)
	plugin := s.measurePods("plugin", func(*corev1.Pod) {})
	s.hasFiles(cdiSpec, 1)
	s.hasFiles(driverSpecs, 0)

	s.switchDRA(true)
	s.waitForAllocatable(v1.ResourceGPU, 0)
	s.waitForDevices(gpus)
	dra := s.measurePods("dra", s.servedByDRA)
	s.hasFiles(cdiSpec, 0)
	s.waitForLabel(v1.LabelGPUHealth, v1.GPUsHealthy)
	s.checkDriverMemory()

	s.switchDRA(false)
	s.waitForDevices(0)
	s.waitForAllocatable(v1.ResourceGPU, gpus)
	s.measurePods("plugin-again", func(pod *corev1.Pod) {
		if pod.Status.ExtendedResourceClaimStatus != nil {
			t.Errorf("Pod %s is served by DRA", pod.Name)
		}
	})
	s.hasFiles(cdiSpec, 1)
	s.hasFiles(driverSpecs, 0)
	t.Logf("of a Pod with one GPU, from its creation until its container runs: device plugin %v, DRA %v", plugin, dra)
}

// servedByDRA fails the test unless a Pod's GPUs come from a claim, and are those that gpu-scheduler
// has planned.
func (s *scene) servedByDRA(pod *corev1.Pod) {
	s.Helper()
	status := pod.Status.ExtendedResourceClaimStatus
	if status == nil || len(status.RequestMappings) != 1 || status.RequestMappings[0].ResourceName != string(v1.ResourceGPU) {
		s.Fatalf("Pod %s is not served by DRA: %+v", pod.Name, status)
	}
	planned := s.assignmentOf(pod.Name)[v1.ContainerName][string(v1.ResourceGPU)]
	if diff := cmp.Diff(planned, s.allocated(status.ResourceClaimName)); diff != "" || len(planned) != 1 {
		s.Errorf("the GPUs of Pod %s (-planned +allocated):\n%s", pod.Name, diff)
	}
}

// applyBoth applies the agents and the DRA driver as we ship them, adapted to this node.
func (s *scene) applyBoth() {
	s.Helper()
	overlay := filepath.Join(s.node.Dir, "both")
	if err := os.MkdirAll(overlay, 0o700); err != nil {
		s.Fatal(err)
	}
	var resources []string
	for _, folder := range []string{"nodeagent", "dradriver"} {
		base, err := filepath.Abs(filepath.Join(programs.Root(), "artifacts", folder))
		if err != nil {
			s.Fatal(err)
		}
		if base, err = filepath.Rel(overlay, base); err != nil {
			s.Fatal(err)
		}
		resources = append(resources, base)
	}
	images := []map[string]string{}
	for name, image := range map[string]string{"nodeagent": agentImage, "dradriver": driverImage} {
		newName, tag, _ := strings.Cut(image, ":")
		images = append(images, map[string]string{"name": "localhost/" + name, "newName": newName, "newTag": tag})
	}
	patches := []map[string]any{
		{"target": map[string]string{"kind": "DaemonSet", "name": "nodeagent.*"}, "patch": s.asYAML(s.podPatch(s.node.agentArgs()))},
		{"target": map[string]string{"kind": "DaemonSet", "name": "dradriver"}, "patch": s.asYAML(s.podPatch(s.node.driverArgs()))},
	}
	kustomization := s.asYAML(map[string]any{"resources": resources, "images": images, "patches": patches})
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		s.Fatal(err)
	}
	s.applyDRA(overlay)
	s.Cleanup(s.showLogs) // before the logs of the Pods are gone
	s.Cleanup(func() { s.removePods(); s.switchDRA(false) })
}

func (s *scene) asYAML(object any) string {
	s.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// measured is what Pods cost, on average.
type measured struct {
	start time.Duration
	// writes are the requests that change Pods, claims and Events.
	writes float64
}

func (m measured) String() string {
	return fmt.Sprintf("%v with %.1f writes", m.start.Round(time.Millisecond), m.writes)
}

// measureCount is how many Pods are measured, one after the other.
const measureCount = 5

// measurePods runs Pods that request a GPU, whoever gives it out, and checks each.
func (s *scene) measurePods(name string, check func(*corev1.Pod)) measured {
	s.Helper()
	var total measured
	before := s.writesSoFar()
	for number := range measureCount {
		pod := gpuPod(fmt.Sprintf("%s-%d", name, number), 1)
		began := time.Now()
		s.create(pod)
		running := s.waitForPod(pod.Name)
		total.start += time.Since(began)
		if got := s.injectedGPUs(running); len(got) != 1 {
			s.Errorf("Pod %s sees the GPUs %v, want one", pod.Name, got)
		}
		check(running)
	}
	total.writes = (s.writesSoFar() - before) / measureCount
	total.start /= measureCount
	s.removePods()
	return total
}

// writesSoFar returns how many requests have changed what belongs to Pods.
func (s *scene) writesSoFar() (count float64) {
	s.Helper()
	text, err := s.node.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		s.Fatal(err)
	}
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		ofPods := labels["resource"] == "pods" || labels["resource"] == "resourceclaims" || labels["resource"] == "events"
		if ofPods && slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, labels["verb"]) {
			count += metric.GetCounter().GetValue()
		}
	}
	return count
}

// hasFiles waits until as many files match a pattern.
func (s *scene) hasFiles(pattern string, count int) {
	s.Helper()
	s.eventually(fmt.Sprintf("there are %d files %s", count, pattern), func() (bool, string) {
		files, err := filepath.Glob(pattern)
		return err == nil && len(files) == count, fmt.Sprint(files, err)
	})
}

// driverMemory is the most memory that the driver may use.
const driverMemory = 64 << 20

// checkDriverMemory checks the memory of the DaemonSet's driver.
func (s *scene) checkDriverMemory() {
	s.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(s.metricsOf(driverAddress)))
	if err != nil || families["process_resident_memory_bytes"] == nil {
		s.Fatalf("the driver does not tell its size: %v", err)
	}
	size := families["process_resident_memory_bytes"].GetMetric()[0].GetGauge().GetValue()
	cpu := families["process_cpu_seconds_total"].GetMetric()[0].GetCounter().GetValue()
	s.Logf("the driver has %.1f MiB in memory, and has used %.2f s of CPU", size/(1<<20), cpu)
	if size > driverMemory {
		s.Errorf("the driver has %.0f bytes in memory, at most %d are promised", size, driverMemory)
	}
}
