// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"tags.cncf.io/container-device-interface/specs-go"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/node"
)

// cdiSpec is the CDI specification that the agent writes.
const cdiSpec = "/var/run/cdi/falldio.com-gpu.json"

// TestAPodCanNotHelpItselfToGPUs sets the variables that would give a container all GPUs if it
// was given its own by them.
func TestAPodCanNotHelpItselfToGPUs(t *testing.T) {
	s := newScene(t)
	pod := gpuPod("greedy", 2)
	pod.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}, {Name: "FALLDIO_VISIBLE_DEVICES", Value: "all"},
	}
	s.create(pod)
	running := s.waitForPod("greedy")
	noted, err := checkpointed(running.UID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(noted[string(v1.ResourceGPU)], s.injectedGPUs(running)); diff != "" || len(noted[string(v1.ResourceGPU)]) != 2 {
		t.Errorf("GPUs (-the kubelet's notes +in the container):\n%s", diff)
	}
	s.createPod("without", nil)
	if got := s.injectedGPUs(s.waitForPod("without")); len(got) > 0 {
		t.Errorf("a Pod that asks for no GPU has %v", got)
	}
}

// TestARestartedContainerHasTheSameGPUs restarts what gives a container its GPUs, and then the
// container, which the runtime creates anew.
func TestARestartedContainerHasTheSameGPUs(t *testing.T) {
	tests := map[string]func(*scene){
		"after nothing else":               func(*scene) {},
		"after containerd was killed":      (*scene).restartContainerd,
		"after the kubelet was killed":     func(s *scene) { s.restart(s.node.Kubelet) },
		"after the agent was killed":       func(s *scene) { s.restart(s.node.agent) },
		"while there is no agent":          (*scene).stopAgentForTest,
		"after all three were killed":      func(s *scene) { s.restartContainerd(); s.restart(s.node.Kubelet, s.node.agent) },
		"after the specification was lost": (*scene).loseSpec,
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			pod := gpuPod("stays", 3)
			pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
			s.create(pod)
			before := s.waitForPod("stays")
			gpus := s.injectedGPUs(before)
			happens(s)
			s.killContainer("stays")
			s.eventually("the container runs again", func() (bool, string) {
				now := s.getPod("stays")
				status := now.Status.ContainerStatuses
				return len(status) == 1 && status[0].RestartCount > 0 && status[0].State.Running != nil, now.Status.String()
			})
			if diff := cmp.Diff(gpus, s.injectedGPUs(s.getPod("stays"))); diff != "" || len(gpus) != 3 {
				t.Errorf("GPUs (-before +after):\n%s", diff)
			}
		})
	}
}

// TestNoSpecificationIsLeftBehind changes how containers get their GPUs.
func TestNoSpecificationIsLeftBehind(t *testing.T) {
	s := newScene(t)
	if got := s.describedGPUs(); len(got) != gpus {
		t.Fatalf("%d GPUs are described, want %d", len(got), gpus)
	}
	s.restartAgentWith("--device-list-strategy=envvar")
	s.waitForAllocatable(v1.ResourceGPU, gpus)
	if _, err := os.Stat(cdiSpec); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the specification is still there: %v", err)
	}
	s.createGPUPod("by-variable", 2)
	pod := s.waitForPod("by-variable")
	if got := s.injectedGPUs(pod); len(got) > 0 {
		t.Errorf("the container was given %v by CDI", got)
	}
	s.devicesOf(pod) // by its variable
}

// TestAGPUThatIsGoneIsNoLongerDescribed removes a simulated GPU.
func TestAGPUThatIsGoneIsNoLongerDescribed(t *testing.T) {
	const gone = 4
	s := newScene(t)
	uuid := s.inventoryOfNode().GPUs[gone].UUID
	s.inject(gone, "Removed")
	t.Cleanup(func() { s.inject(gone, "Recovered") })
	s.eventually("the GPU is not described", func() (bool, string) {
		described := s.describedGPUs()
		return !slices.Contains(described, uuid), strings.Join(described, " ")
	})
	s.inject(gone, "Recovered")
	s.eventually("the GPU is described again", func() (bool, string) {
		described := s.describedGPUs()
		return slices.Contains(described, uuid), strings.Join(described, " ")
	})
	s.waitForAllocatable(v1.ResourceGPU, gpus)
}

func gpuPod(name string, gpus int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appSpec()}
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{v1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
	return pod
}

func (s *scene) create(pod *corev1.Pod) {
	s.Helper()
	if _, err := s.node.Kube.CoreV1().Pods(s.namespace).Create(s.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// describedGPUs returns the GPUs in the CDI specification.
func (s *scene) describedGPUs() []string {
	s.Helper()
	data, err := os.ReadFile(cdiSpec)
	if err != nil {
		s.Fatal(err)
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		s.Fatal(err)
	}
	var uuids []string
	for i := range spec.Devices {
		uuids = append(uuids, spec.Devices[i].Name)
	}
	return uuids
}

// restartContainerd kills containerd and starts it again.
func (s *scene) restartContainerd() {
	s.Helper()
	if err := s.node.Containerd.Kill(); err != nil {
		s.Fatal(err)
	}
	if err := s.node.Containerd.Start(); err != nil {
		s.Fatal(err)
	}
	if err := s.node.WaitForContainerd(); err != nil {
		s.Fatal(err)
	}
}

// stopAgentForTest kills the agent. The next test starts it again.
func (s *scene) stopAgentForTest() {
	s.Helper()
	if err := s.node.agent.Kill(); err != nil {
		s.Fatal(err)
	}
	s.waitForAllocatable(v1.ResourceGPU, 0)
}

// loseSpec removes the specification, and waits until the agent has written it again.
func (s *scene) loseSpec() {
	s.Helper()
	if err := os.Remove(cdiSpec); err != nil {
		s.Fatal(err)
	}
	s.eventually("the specification is there again", func() (bool, string) {
		_, err := os.Stat(cdiSpec)
		return err == nil, "it is not"
	})
}

// restartAgentWith restarts the agent with further arguments for the rest of the test.
func (s *scene) restartAgentWith(args ...string) {
	s.Helper()
	agent := s.node.agent
	if err := agent.Stop(); err != nil {
		s.Fatal(err)
	}
	before := agent.Args
	s.Cleanup(func() {
		agent.Args = before
		if err := agent.Stop(); err != nil { // the next test starts it
			s.Error(err)
		}
	})
	agent.Args = slices.Concat(before, args)
	s.startAgent()
}
