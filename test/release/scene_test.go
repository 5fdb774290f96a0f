// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/test/node"
)

// limit is how long a test waits for what normally takes seconds.
const limit = 2 * time.Minute

// scene is a test with the node.
type scene struct {
	*testing.T
	node *node.Node
}

// newScene returns when the node has nothing of ours, and Pods reach the API server as they do
// in any cluster.
func newScene(t *testing.T) *scene {
	t.Helper()
	if missing != "" {
		t.Skipf("a real node cannot run here: %s", missing)
	}
	node.RequireNetwork(t)
	s := &scene{T: t, node: shared}
	t.Cleanup(func() {
		if t.Failed() {
			s.node.PrintLogs(t.Output())
			s.printPodLogs()
		}
	})
	s.kubectl("taint", "node", emptyNode, "empty=true:NoSchedule", "--overwrite")
	s.kubectl("delete", "--kustomize", filepath.Join("artifacts", "base"), "--ignore-not-found", "--timeout="+limit.String())
	s.forwardAPI()
	return s
}

// background returns a context for what is also done when the test has ended.
func (s *scene) background() context.Context { return context.WithoutCancel(s.Context()) }

func (s *scene) kubectl(args ...string) {
	s.Helper()
	if err := s.node.Kubectl(s.background(), args...); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) eventually(what string, holds func() (bool, string)) {
	s.Helper()
	node.Eventually(s.T, limit, what, holds)
}

// install applies a file of the release's manifests, with patches for this machine. They are by the
// names of the DaemonSets that they are for; a name is a regular expression, as in kustomize.
func (s *scene) install(manifest string, patches map[string][]map[string]any) {
	s.Helper()
	overlay := filepath.Join(s.node.Dir, "overlay-"+strings.TrimSuffix(manifest, ".yaml"))
	if err := os.MkdirAll(overlay, 0o700); err != nil {
		s.Fatal(err)
	}
	// kustomize reads no files outside of an overlay.
	content, err := os.ReadFile(filepath.Join(releaseFolder(s.node.Dir), "manifests", manifest))
	if err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(overlay, manifest), content, 0o600); err != nil {
		s.Fatal(err)
	}
	kustomization := map[string]any{"resources": []string{manifest}}
	var list []map[string]any
	for name, patch := range patches {
		list = append(list, map[string]any{"target": map[string]string{"kind": "DaemonSet", "name": name}, "patch": s.asYAML(patch)})
	}
	kustomization["patches"] = list
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(s.asYAML(kustomization)), 0o600); err != nil {
		s.Fatal(err)
	}
	s.kubectl("apply", "--server-side", "--kustomize", overlay)
}

func (s *scene) asYAML(object any) string {
	s.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// podsOf returns the Pods of one of our processes.
func (s *scene) podsOf(process string) []corev1.Pod {
	s.Helper()
	list, err := s.node.Kube.CoreV1().Pods(metav1.NamespaceAll).List(s.background(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + process})
	if err != nil {
		s.Fatal(err)
	}
	var onNode []corev1.Pod
	for i := range list.Items {
		if list.Items[i].Spec.NodeName != emptyNode {
			onNode = append(onNode, list.Items[i])
		}
	}
	return onNode
}

// waitForPods waits until a process has as many Pods on the node, and all are ready.
func (s *scene) waitForPods(process string, count int) []corev1.Pod {
	s.Helper()
	var pods []corev1.Pod
	s.eventually(fmt.Sprintf("%d Pods of %s are ready", count, process), func() (bool, string) {
		pods = s.podsOf(process)
		ready := 0
		var states []string
		for i := range pods {
			if isReady(&pods[i]) {
				ready++
			}
			states = append(states, s.stateOf(&pods[i]))
		}
		return len(pods) == count && ready == count, strings.Join(states, "\n") + s.warnings()
	})
	return pods
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (s *scene) stateOf(pod *corev1.Pod) string {
	texts := []string{fmt.Sprintf("%s is %s on node %q", pod.Name, pod.Status.Phase, pod.Spec.NodeName)}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Waiting != nil {
			texts = append(texts, fmt.Sprintf("%s: %s", status.State.Waiting.Reason, status.State.Waiting.Message))
		}
		if status.LastTerminationState.Terminated != nil {
			texts = append(texts, fmt.Sprintf("ended before with %d", status.LastTerminationState.Terminated.ExitCode))
		}
	}
	return strings.Join(texts, ", ")
}

// warnings returns the last Events of the kind Warning, which explain why there are no Pods.
func (s *scene) warnings() string {
	list, err := s.node.Kube.CoreV1().Events(metav1.NamespaceAll).List(s.background(), metav1.ListOptions{FieldSelector: "type=Warning"})
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	const most = 10
	for i := max(0, len(list.Items)-most); i < len(list.Items); i++ {
		fmt.Fprintf(&text, "\n%s: %s", list.Items[i].InvolvedObject.Name, list.Items[i].Message)
	}
	return text.String()
}
