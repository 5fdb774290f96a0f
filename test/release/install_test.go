// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/node"
)

const (
	system = "gpu-controller-system"
	gpus   = 8
	// agentProfile describes the simulated GPUs.
	agentProfile = "product: NVIDIA H100 80GB HBM3\nmemory: 81559Mi\ncount: 8\n"
	gpuModel     = "h100-80gb-hbm3"
)

// TestAReleaseRunsAGangAndFailsOver installs the release, runs a gang, makes the leading controller
// and the leading scheduler fail, and expects the next gang to run.
func TestAReleaseRunsAGangAndFailsOver(t *testing.T) {
	s := newScene(t)
	s.installEverything()

	s.createGang("before", 2, 3)
	before := s.waitForGang("before", 2)
	for _, process := range []string{"gpu-controller", "gpu-scheduler"} {
		s.failOver(process)
	}
	s.createGang("after", 2, 1)
	s.waitForGang("after", 2)
	for name, uid := range before {
		if pod := s.podOf(name); string(pod.UID) != uid || pod.Status.Phase != corev1.PodRunning || restartsOf(pod) != 0 {
			t.Errorf("Pod %s has not run on: %s", name, s.stateOf(pod))
		}
	}
	s.waitForPods("gpu-controller", 2)
	s.waitForPods("gpu-scheduler", 2)
	s.hadAllPermissions()
	s.deleteGang("before")
	s.deleteGang("after")
}

// installEverything installs what every cluster needs, and waits until it works.
func (s *scene) installEverything() {
	s.Helper()
	s.install("install.yaml", map[string][]map[string]any{"nodeagent": s.simulation("--poll-schedule=*/1 * * * * *")})
	for process, count := range map[string]int{"gpu-controller": 2, "gpu-scheduler": 2, "nodeagent": 1} {
		pods := s.waitForPods(process, count)
		for i := range pods {
			s.isConfined(&pods[i])
		}
	}
	s.waitForGPUs(gpus)
}

// simulation returns a patch for a DaemonSet whose process has no GPUs here: it simulates them.
// Everything else is as shipped.
func (s *scene) simulation(args ...string) []map[string]any {
	s.Helper()
	profile := filepath.Join(s.node.Dir, "profile.yaml")
	if err := os.WriteFile(profile, []byte(agentProfile), 0o600); err != nil {
		s.Fatal(err)
	}
	add := func(path string, value any) map[string]any {
		return map[string]any{"op": "add", "path": "/spec/template/spec/" + path, "value": value}
	}
	patch := []map[string]any{
		add("volumes/-", corev1.Volume{Name: "profile", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: profile}}}),
		add("containers/0/volumeMounts/-", corev1.VolumeMount{Name: "profile", MountPath: profile, ReadOnly: true}),
	}
	for _, arg := range append(args, "--source=simulated", "--simulation-profile="+profile) {
		patch = append(patch, add("containers/0/args/-", arg))
	}
	return patch
}

// isConfined fails the test unless the process of a Pod runs as the manifest says, with a root
// file system that can't be written.
func (s *scene) isConfined(pod *corev1.Pod) {
	s.Helper()
	process := s.processOf(pod)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	if err != nil {
		s.Fatal(err)
	}
	if strings.HasPrefix(pod.Namespace, system) && !strings.Contains(string(status), "Uid:\t65532\t65532") {
		s.Errorf("Pod %s does not run as the user nonroot:\n%s", pod.Name, status)
	}
	if !strings.Contains(string(status), "CapEff:\t0000000000000000") {
		s.Errorf("Pod %s has capabilities:\n%s", pod.Name, status)
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", process))
	if err != nil {
		s.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); fields[1] == "/" && !strings.HasPrefix(fields[3], "ro") {
			s.Errorf("Pod %s can write to its root file system: %s", pod.Name, line)
		}
	}
}

// processOf returns the process ID of a Pod's container, which the test sees because it is in
// the node's PID namespace.
func (s *scene) processOf(pod *corev1.Pod) int {
	s.Helper()
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		s.Fatal(err)
	}
	for _, path := range groups {
		content, err := os.ReadFile(path)
		var process int
		if err == nil && strings.Contains(string(content), id) {
			if _, err := fmt.Sscanf(path, "/proc/%d/cgroup", &process); err == nil {
				return process
			}
		}
	}
	s.Fatalf("the process of Pod %s is not found", pod.Name)
	return 0
}

// waitForGPUs waits until the node offers so many GPUs.
func (s *scene) waitForGPUs(count int64) {
	s.Helper()
	s.eventually(fmt.Sprintf("the node offers %d GPUs", count), func() (bool, string) {
		n, err := s.node.Kube.CoreV1().Nodes().Get(s.Context(), node.Name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		offered := n.Status.Allocatable[v1.ResourceGPU]
		return offered.Value() == count, offered.String()
	})
}

// createGang submits a GPUTask of several Pods, as a user does.
func (s *scene) createGang(name string, replicas int32, gpus int) {
	s.Helper()
	grace := int64(1)
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: v1.GPUTaskSpec{
			GPU: gpuModel, GPUAmount: fmt.Sprint(gpus), Replicas: &replicas,
			Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: &grace,
				Containers:                    []corev1.Container{{Name: v1.ContainerName, Image: node.AppImage, ImagePullPolicy: corev1.PullNever}},
			}},
		},
	}
	if _, err := s.node.Tasks.FalldioV1().GPUTasks(task.Namespace).Create(s.Context(), task, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// waitForGang waits until all Pods of a task run, and returns their UIDs by name.
func (s *scene) waitForGang(name string, replicas int) map[string]string {
	s.Helper()
	uids := map[string]string{}
	s.eventually(fmt.Sprintf("all Pods of GPUTask %s run", name), func() (bool, string) {
		clear(uids)
		task, err := s.node.Tasks.FalldioV1().GPUTasks(metav1.NamespaceDefault).Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		pods, err := s.node.Kube.CoreV1().Pods(metav1.NamespaceDefault).List(s.Context(), metav1.ListOptions{LabelSelector: v1.LabelTask + "=" + name})
		if err != nil {
			return false, err.Error()
		}
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning {
				uids[pods.Items[i].Name] = string(pods.Items[i].UID)
			}
		}
		return len(uids) == replicas && task.Status.Phase == v1.PhaseRunning,
			fmt.Sprintf("it is %q (%s), %d Pods run", task.Status.Phase, task.Status.Message, len(uids))
	})
	return uids
}

func (s *scene) podOf(name string) *corev1.Pod {
	s.Helper()
	pod, err := s.node.Kube.CoreV1().Pods(metav1.NamespaceDefault).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

// failOver makes the leader of a process hang until another Pod leads, and then kills it with SIGKILL.
// A leader that is killed at once runs again long before its lease expires: it might be the next one,
// too, and then no replica would have taken over.
func (s *scene) failOver(process string) {
	s.Helper()
	leader := s.leaderOf(process)
	if leader == nil {
		s.Fatalf("none of the Pods of %s leads", process)
	}
	pid := s.processOf(leader)
	s.signal(pid, syscall.SIGSTOP)
	s.eventually("another Pod of "+process+" leads", func() (bool, string) {
		now := s.leaderOf(process)
		if now == nil {
			return false, "none leads"
		}
		return now.UID != leader.UID, now.Name + " still leads"
	})
	s.signal(pid, syscall.SIGKILL)
	s.eventually("the leader that was killed is restarted", func() (bool, string) {
		pods := s.podsOf(process)
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.UID == leader.UID })
		if i < 0 {
			return false, "its Pod is gone"
		}
		return restartsOf(&pods[i]) > restartsOf(leader), s.stateOf(&pods[i])
	})
}

func (s *scene) signal(pid int, signal syscall.Signal) {
	s.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		s.Fatalf("%v to process %d: %v", signal, pid, err)
	}
}

// leaderOf returns the Pod that holds the lease of a process; nil if none of its Pods does.
func (s *scene) leaderOf(process string) *corev1.Pod {
	s.Helper()
	lease, err := s.node.Kube.CoordinationV1().Leases(system).Get(s.Context(), process, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return nil
	}
	return holder(*lease.Spec.HolderIdentity, s.podsOf(process))
}

// holder returns the Pod with an identity of package pkg/identity: the name of the host, which is that of
// the Pod, and that of the process. It returns nil if it is none of the Pods.
func holder(identity string, pods []corev1.Pod) *corev1.Pod {
	for i := range pods {
		if strings.HasPrefix(identity, pods[i].Name+"_") {
			return &pods[i]
		}
	}
	return nil
}

// hadAllPermissions fails the test if a process was refused something.
func (s *scene) hadAllPermissions() {
	s.Helper()
	for _, process := range processNames {
		pods := s.podsOf(process)
		for i := range pods {
			if pods[i].DeletionTimestamp != nil {
				continue // its log goes with it, at any moment
			}
			logs, err := logsOf(s.background(), s.node.Kube, &pods[i])
			if err != nil {
				s.Error(err)
			}
			for _, line := range refusals(logs) {
				s.Errorf("%s was refused something: %s", pods[i].Name, line)
			}
		}
	}
}
