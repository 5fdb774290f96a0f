// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/node"
	"falldio.github.io/gpu-controller/test/programs"
)

const agentSelector = "app.kubernetes.io/name=nodeagent"

// TestTheAgentRunsAsADaemonSet replaces the agent with the DaemonSet that we ship,
// with its service account's token, while a Pod runs; and restarts it, as an update
// would.
func TestTheAgentRunsAsADaemonSet(t *testing.T) {
	s := newScene(t)
	s.createGPUPod("before", 6)
	before := s.waitForPod("before")
	devices := s.devicesOf(before)
	if err := s.node.agent.Stop(); err != nil {
		t.Error(err)
	}
	s.waitForAllocatable(v1.ResourceGPU, 0)
	// The DaemonSet's agent has to rewrite it.
	s.patchNode(fmt.Sprintf(`{"metadata": {"labels": {%q: null}}}`, v1.LabelGPUCount))

	s.applyDaemonSet()
	first := s.waitForAgentPod("")
	s.waitForAllocatable(v1.ResourceGPU, gpus)
	s.waitForAllocatable(resourceRDMA, rdmas)
	s.waitForLabel(v1.LabelGPUCount, fmt.Sprint(gpus))
	s.isUnaffected(before, devices)
	s.createGPUPod("after", gpus-6)
	after := s.waitForPod("after")
	s.haveNothingInCommon(devices[string(v1.ResourceGPU)], s.devicesOf(after)[string(v1.ResourceGPU)])
	s.checkAgentPodLog(first)

	if err := s.node.Kubectl(t.Context(), "rollout", "restart", "daemonset", "--namespace="+first.Namespace, "--selector="+agentSelector); err != nil {
		t.Fatal(err)
	}
	second := s.waitForAgentPod(first.UID)
	s.waitForAllocatable(v1.ResourceGPU, gpus)
	s.isUnaffected(before, devices)
	s.deletePod("after")
	s.createGPUPod("again", gpus-6)
	s.devicesOf(s.waitForPod("again"))
	s.checkAgentPodLog(second)
	s.checkAgentMemory()
}

// agentMemory is the most memory that an agent may use: it is used on every node.
const agentMemory = 40 << 20

// checkAgentMemory checks the memory of the DaemonSet's agent. The one that runs as
// a process of the node has the race detector and needs more.
func (s *scene) checkAgentMemory() {
	s.Helper()
	family := s.agentMetrics()["process_resident_memory_bytes"]
	if family == nil {
		s.Fatal("the agent does not tell its size")
	}
	size := family.GetMetric()[0].GetGauge().GetValue()
	s.Logf("the agent has %.1f MiB in memory", size/(1<<20))
	if size > agentMemory {
		s.Errorf("the agent has %.0f bytes in memory, at most %d are promised", size, agentMemory)
	}
}

// applyDaemonSet applies what we ship, adapted to this node. It is deleted at the
// end of the test.
func (s *scene) applyDaemonSet() {
	s.Helper()
	overlay := filepath.Join(s.node.Dir, "daemonset")
	if err := s.writeOverlay(overlay); err != nil {
		s.Fatal(err)
	}
	if err := s.node.Kubectl(s.Context(), "apply", "--kustomize="+overlay); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		err := s.node.Kubectl(context.WithoutCancel(s.Context()), "delete", "--kustomize="+overlay, "--cascade=foreground", "--timeout="+limit.String())
		if err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(s.showLogs) // before the agent's log is gone
}

// writeOverlay writes an overlay over the shipped kustomization.
func (s *scene) writeOverlay(dir string) error {
	base, err := filepath.Abs(filepath.Join(programs.Root(), "artifacts", "nodeagent"))
	if err != nil {
		return err
	}
	if base, err = filepath.Rel(dir, base); err != nil {
		return err
	}
	patch, err := yaml.Marshal(s.daemonSetPatch())
	if err != nil {
		return err
	}
	image, tag, _ := strings.Cut(agentImage, ":")
	kustomization, err := yaml.Marshal(map[string]any{
		"resources": []string{base},
		"images":    []map[string]string{{"name": "localhost/nodeagent", "newName": image, "newTag": tag}},
		"patches":   []map[string]any{{"target": map[string]string{"kind": "DaemonSet"}, "patch": string(patch)}},
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "kustomization.yaml"), kustomization, 0o600)
}

// daemonSetPatch returns what the DaemonSet needs on this node: a local image, the
// simulation, and access to the API server, which is on the loopback interface and
// has no Service. Everything else is as shipped.
func (s *scene) daemonSetPatch() []map[string]any { return s.podPatch(s.node.agentArgs()) }

// podPatch returns that for a DaemonSet whose container needs these arguments.
func (s *scene) podPatch(args []string) []map[string]any {
	const spec, container = "/spec/template/spec", "/spec/template/spec/containers/0"
	add := func(path string, value any) map[string]any {
		return map[string]any{"op": "add", "path": path, "value": value}
	}
	server, err := url.Parse(s.node.Config.Host)
	if err != nil {
		s.Fatal(err)
	}
	patch := []map[string]any{
		add(spec+"/hostNetwork", true),
		add(spec+"/nodeSelector/kubernetes.io~1hostname", node.Name),
		add(spec+"/volumes/-", corev1.Volume{Name: "profile", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: s.node.agentProfile()},
		}}),
		add(container+"/imagePullPolicy", corev1.PullNever),
		add(container+"/volumeMounts/-", corev1.VolumeMount{Name: "profile", MountPath: s.node.agentProfile(), ReadOnly: true}),
		add(container+"/env/-", corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: server.Hostname()}),
		add(container+"/env/-", corev1.EnvVar{Name: "KUBERNETES_SERVICE_PORT", Value: server.Port()}),
	}
	for _, arg := range args {
		patch = append(patch, add(container+"/args/-", arg))
	}
	return patch
}

// waitForAgentPod waits until the only Pod of the DaemonSet is a ready one other
// than the old one.
func (s *scene) waitForAgentPod(old types.UID) *corev1.Pod {
	s.Helper()
	var pod *corev1.Pod
	s.eventually("the DaemonSet's Pod is ready", func() (bool, string) {
		list, err := s.node.Kube.CoreV1().Pods(metav1.NamespaceAll).List(s.Context(), metav1.ListOptions{LabelSelector: agentSelector})
		if err != nil {
			return false, err.Error()
		}
		if len(list.Items) != 1 {
			return false, fmt.Sprintf("it has %d Pods: %s", len(list.Items), s.daemonSetEvents())
		}
		pod = &list.Items[0]
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return pod.UID != old, "it is still the old one"
			}
		}
		return false, pod.Status.String()
	})
	return pod
}

// daemonSetEvents returns the DaemonSet's Events, which explain why it has no Pod.
func (s *scene) daemonSetEvents() string {
	events, err := s.node.Kube.CoreV1().Events(metav1.NamespaceAll).List(s.Context(),
		metav1.ListOptions{FieldSelector: "type=Warning,involvedObject.kind=DaemonSet"})
	if err != nil {
		return err.Error()
	}
	var messages []string
	for i := range events.Items {
		messages = append(messages, events.Items[i].Message)
	}
	return strings.Join(messages, "; ")
}

// checkAgentPodLog fails the test if a request of the agent was forbidden.
func (s *scene) checkAgentPodLog(pod *corev1.Pod) {
	s.Helper()
	log, err := s.node.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	s.checkForRefusals(string(log))
	s.seesNoProcesses(string(log))
}
