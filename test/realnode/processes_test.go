// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestTheAgentTellsWhatEachContainerUsesOfASharedGPU has the simulation report the processes
// that really run in two containers; the agent finds out by their control groups which
// containers these are.
func TestTheAgentTellsWhatEachContainerUsesOfASharedGPU(t *testing.T) {
	s := newScene(t)
	s.waitForAllocatable(v1.ResourceGPUPercent, 100*gpus)
	chosen := s.inventoryOfNode().GPUs[5].UUID
	for name, percent := range map[string]int64{"quarter": 25, "half": 50} {
		s.createUnscheduledPod(name, v1.ResourceGPUPercent, percent)
		s.bind(name, v1.ResourceGPUPercent, chosen)
	}
	s.createUnscheduledPod("whole", v1.ResourceGPU, 1)
	s.bind("whole", v1.ResourceGPU, s.inventoryOfNode().GPUs[6].UUID)
	for _, name := range []string{"quarter", "half", "whole"} {
		s.waitForPod(name)
	}
	s.eventually("both containers use their shares", func() (bool, string) {
		use := s.containerMemory()
		quarter, half := use["quarter/"+v1.ContainerName], use["half/"+v1.ContainerName]
		return len(use) == 2 && quarter > 0 && half > 1.9*quarter && half < 2.1*quarter, fmt.Sprint(use)
	})

	s.killContainer("half")
	s.eventually("only the other container is left", func() (bool, string) {
		use := s.containerMemory()
		return len(use) == 1 && use["quarter/"+v1.ContainerName] > 0, fmt.Sprint(use)
	})
	s.deletePod("quarter")
	s.eventually("nobody uses it", func() (bool, string) {
		use := s.containerMemory()
		return len(use) == 0, fmt.Sprint(use)
	})
}

// containerMemory returns how much memory of GPUs containers use, in bytes, by "Pod/container".
func (s *scene) containerMemory() map[string]float64 {
	s.Helper()
	use := map[string]float64{}
	for _, metric := range s.agentMetrics()["falldio_gpu_container_memory_used_bytes"].GetMetric() {
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		use[labels["pod"]+"/"+labels["container"]] = metric.GetGauge().GetValue()
	}
	return use
}

// agentMetrics returns the agent's metrics by their names.
func (s *scene) agentMetrics() map[string]*dto.MetricFamily {
	s.Helper()
	response, err := http.Get("http://" + agentAddress + "/metrics")
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return families
}

// seesNoProcesses fails the test unless the agent in a Pod has said that it does not see the
// processes of the node.
func (s *scene) seesNoProcesses(log string) {
	s.Helper()
	if !strings.Contains(log, "the agent does not see the node's processes") {
		s.Error("the agent in a PID namespace of its own does not say that it can't measure what containers use")
	}
}
