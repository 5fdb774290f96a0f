// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/node"
	"falldio.github.io/gpu-controller/test/programs"
)

// TestInObserveModeTheAgentTellsWhichCardsOthersHaveGivenOut runs the agent beside a device plugin that
// gives out the same cards as nvidia.com/gpu and tells nobody.
func TestInObserveModeTheAgentTellsWhichCardsOthersHaveGivenOut(t *testing.T) {
	s := newScene(t)
	s.startForeignPlugin()
	s.waitForAllocatable(v1.ResourceNVIDIAGPU, gpus)
	s.restartAgentWith("--mode=observe")
	s.waitForAllocatable(v1.ResourceGPU, 0)
	s.eventually("the agent no longer describes GPUs that it does not give out", func() (bool, string) {
		_, err := os.Stat(cdiSpec)
		return os.IsNotExist(err), fmt.Sprint(err)
	})

	s.createPod("theirs", map[corev1.ResourceName]int64{v1.ResourceNVIDIAGPU: 3})
	pod := s.waitForPod("theirs")
	noted, err := checkpointed(pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("the annotation names the cards", func() (bool, string) {
		assignment, err := inventory.ParseAssignment(s.getPod("theirs").Annotations[inventory.AssignmentAnnotation])
		if err != nil {
			return false, err.Error()
		}
		diff := cmp.Diff(noted[string(v1.ResourceNVIDIAGPU)], assignment.Containers[v1.ContainerName][string(v1.ResourceNVIDIAGPU)])
		return diff == "" && len(noted[string(v1.ResourceNVIDIAGPU)]) == 3, diff
	})
	s.waitForLabel(v1.LabelGPUHealth, v1.GPUsHealthy)
}

// startForeignPlugin runs a device plugin that can't reach the API server.
func (s *scene) startForeignPlugin() {
	s.Helper()
	nowhere := clientcmdapi.NewConfig()
	nowhere.Clusters["nowhere"] = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}
	nowhere.Contexts["nowhere"] = &clientcmdapi.Context{Cluster: "nowhere"}
	nowhere.CurrentContext = "nowhere"
	kubeconfig := filepath.Join(s.node.Dir, "nowhere.kubeconfig")
	if err := clientcmd.WriteToFile(*nowhere, kubeconfig); err != nil {
		s.Fatal(err)
	}
	plugin := node.NewProgram(s.node.Dir, "foreign", programs.Binary(raceAgent), "--node-name="+node.Name, "--kubeconfig="+kubeconfig, "--bind-address=127.0.0.1:9837",
		"--source=simulated", "--simulation-profile="+s.node.agentProfile(), "--resource="+string(v1.ResourceNVIDIAGPU)+"=gpus", "--device-list-strategy=envvar")
	if err := plugin.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := plugin.Kill(); err != nil {
			s.Error(err)
		}
	})
}
