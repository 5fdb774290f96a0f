// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// kubectlHere runs localcluster's kubectl in the suite's namespace.
func (s *suite) kubectlHere(args ...string) (string, error) {
	return s.cluster.kubectl(s.Context(), append([]string{"--namespace=" + s.namespace}, args...)...)
}

func (s *suite) outputOf(args ...string) string {
	s.Helper()
	out, err := s.kubectlHere(args...)
	if err != nil {
		s.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

func TestSimulatedPodsHaveLogsAndAnswerCommands(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.create(newTask("train", 1, "20s"))
	s.waitForPhase("train", v1.PhaseRunning)
	pod, err := s.cluster.kube.CoreV1().Pods(s.namespace).Get(t.Context(), "train", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	assignment, err := inventory.ParseAssignment(pod.Annotations[inventory.AssignmentAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	gpu := assignment.Containers[v1.ContainerName][string(v1.ResourceGPU)][0]
	if got, want := s.outputOf("exec", "train", "--", "nvidia-smi"), "GPU 0: h100-80gb-hbm3 (UUID: "+gpu+")\n"; got != want {
		t.Errorf("nvidia-smi prints %q, want %q", got, want)
	}
	if out, errOut, code := s.gputask("exec", "train", "--", "sh", "-c", "id").outcome(s); code != 127 || !strings.Contains(errOut, "this container is simulated") {
		t.Errorf("a shell: exit code %d, output %q, errors %q", code, out, errOut)
	}
	followed, errOut, code := s.gputask("logs", "train", "--follow").outcome(s)
	if code != 0 || errOut != "" {
		t.Errorf("following the log: exit code %d, errors %s", code, errOut)
	}
	s.waitForPhase("train", v1.PhaseSucceeded)
	whole := s.outputOf("logs", "train")
	if followed != whole {
		t.Errorf("followed was\n%s\nafterwards there is\n%s", followed, whole)
	}
	lines := strings.Split(strings.TrimSpace(whole), "\n")
	if len(lines) != 23 || lines[1] != "starting at step 0" || !strings.HasPrefix(lines[21], "epoch 10/10  step 200/200  loss ") || !strings.HasPrefix(lines[22], "finished at step 200 ") {
		t.Errorf("the log is\n%s", whole)
	}
	if got := s.outputOf("logs", "train", "--tail=1"); got != lines[22]+"\n" {
		t.Errorf("its last line is %q", got)
	}
	if got := s.outputOf("logs", "train", "--since=1h", "--timestamps"); strings.Count(got, "Z ") != len(lines) {
		t.Errorf("with times it is\n%s", got)
	}
}

func TestTheLogOfASimulatedPodSaysHowItFailed(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	s.create(newTask("fails", 1, "1s", "simulation.falldio.com/exit-code", "3"))
	s.waitForPhase("fails", v1.PhaseFailed)
	if got := s.outputOf("logs", "fails"); !strings.Contains(got, "failed at step 10 with exit code 3") {
		t.Errorf("the log of one that fails is\n%s", got)
	}
}

// TestATaskGoesOnWhereItHasSavedItsWork: one saves when it is asked to, before it is preempted, the
// other one when it is stopped.
func TestATaskGoesOnWhereItHasSavedItsWork(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	other, err := s.cluster.kube.CoreV1().Nodes().Get(t.Context(), "h100-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := s.addNode("only", 4, func(node *corev1.Node) { // its logs are served as those of the others
		node.Status.Addresses, node.Status.DaemonEndpoints = other.Status.Addresses, other.Status.DaemonEndpoints
	})
	low := newTask("low", 1, "20s")
	low.Spec.GPU, low.Spec.GPUAmount, low.Spec.Priority = own.Labels[v1.LabelGPUModel], "4", "gpu-low-priority"
	low.Spec.Checkpoint = &v1.Checkpoint{Mode: v1.CheckpointSignal, TimeoutSeconds: ptr.To[int32](3600)}
	s.create(low)
	stops := newTask("stops", 1, "1h")
	stops.Spec.Checkpoint = &v1.Checkpoint{Mode: v1.CheckpointPreStop}
	s.create(stops)
	s.waitForPhase("low", v1.PhaseRunning)
	s.waitForPhase("stops", v1.PhaseRunning)
	high := newTask("high", 1, "1s")
	high.Spec.GPU, high.Spec.GPUAmount, high.Spec.Priority = low.Spec.GPU, "4", "gpu-high-priority"
	s.create(high)
	s.patch("stops", `{"spec": {"suspend": true}}`)
	s.waitForPhase("stops", v1.PhaseSuspended)
	s.patch("stops", `{"spec": {"suspend": false}}`)
	s.waitForPhase("stops", v1.PhaseRunning)
	s.waitForPhase("high", v1.PhaseSucceeded)
	s.waitForPhase("low", v1.PhaseSucceeded)
	for task, last := range map[string]string{"low": "finished at step 200 ", "stops": ""} {
		s.eventually("the log of "+task+" says so", func() (bool, string) {
			log, err := s.kubectlHere("logs", task)
			return err == nil && strings.Contains(log, "\nresumed from checkpoint at step ") && strings.Contains(log, last), log
		})
	}
}

// TestGPUsAreBusyWhileTheyAreHeld: those that nobody holds are idle.
func TestGPUsAreBusyWhileTheyAreHeld(t *testing.T) {
	t.Parallel()
	s := newSuiteWithController(t)
	task := newTask("busy", 1, "1h")
	task.Spec.GPUAmount = "2"
	s.create(task)
	s.waitForPhase("busy", v1.PhaseRunning)
	node := s.podsOf("busy")[0].Spec.NodeName
	s.eventually("kubectl gputask top shows it", func() (bool, string) {
		out, errOut, code := s.gputask("top", "-o", "json").outcome(s)
		var top struct {
			Leaves []struct {
				Nodes []struct {
					Name string `json:"name"`
					GPUs []struct {
						Use         string   `json:"use"`
						Utilization *float64 `json:"utilization"`
					} `json:"gpus"`
				} `json:"nodes"`
			} `json:"leaves"`
		}
		if err := json.Unmarshal([]byte(out), &top); err != nil || code != 0 {
			return false, errOut
		}
		busy, wrong := 0, 0
		for _, leaf := range top.Leaves {
			for _, one := range leaf.Nodes {
				for _, gpu := range one.GPUs {
					switch {
					case one.Name != node:
					case gpu.Utilization == nil || (*gpu.Utilization == 0) != (gpu.Use == "Free"):
						wrong++
					case gpu.Use != "Free":
						busy++
					}
				}
			}
		}
		return busy >= 2 && wrong == 0, fmt.Sprintf("%d GPUs of node %s are busy, of %d it is not so; %s", busy, node, wrong, errOut)
	})
}
