// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/test/cluster"
	"falldio.github.io/gpu-controller/test/programs"
)

// TestTheExamplesComeToTheirEnds is "make run ONCE=1".
func TestTheExamplesComeToTheirEnds(t *testing.T) {
	t.Parallel()
	output := &programs.Output{}
	ofAnother, err := cluster.ProgramsFromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"up", "--examples", "--once", "--dir=" + filepath.Join(t.TempDir(), "cluster"), "--controller-arg=--retry-backoff=1s"}, ofAnother...)
	command := exec.CommandContext(t.Context(), programs.Binary("localcluster"), args...)
	command.Stdout, command.Stderr = output, output
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, text := range []string{
		"bulk          Succeeded", "too-big       Pending", "it would not fit even if nothing else ran; ",
		"topology      Succeeded", "share-a       Succeeded", "share-b       Succeeded", "waiting       Pending", "needs at once 3 × 4 GPUs of a100-40gb",
		"slices        Succeeded", "slice-large   Succeeded",
		"left          Moved", "whole         Succeeded", "make-room-whole-",
		"Every example ended as expected.",
	} {
		if !strings.Contains(output.String(), text) {
			t.Errorf("%q is missing in:\n%s", text, output)
		}
	}
}

// TestALocalClusterHealsAndLeavesNothing kills every component of a separate cluster,
// one after the other, and in the end localcluster itself.
func TestALocalClusterHealsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	output := &programs.Output{}
	cluster, err := startCluster(filepath.Join(t.TempDir(), "cluster"), output, "--nodes=model=rtx4090,count=1,gpus=1,gpu-memory=24564Mi")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	t.Cleanup(func() {
		if t.Failed() {
			cluster.showLogs(t)
		}
		if err := cluster.Stop(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("output of localcluster:\n%s", output)
		}
	})
	s := &suite{T: t, cluster: cluster, namespace: "default"}
	for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kwok"} {
		s.killComponent(component)
		s.waitUntilAPodCompletes("after-" + component)
	}
	s.killScheduler()
	s.waitUntilAPodCompletes("after-gpu-scheduler")
	s.killAgent()
	s.checkTheAgentRepairs("rtx4090-0")
	second := exec.CommandContext(t.Context(), programs.Binary("localcluster"), "up", "--controller=none", "--dir="+cluster.Dir)
	if refusal, err := second.CombinedOutput(); err == nil || !strings.Contains(string(refusal), "running") {
		t.Errorf("a second cluster in the same directory: %v\n%s", err, refusal)
	}

	members := processesOf(t, cluster.Dir)
	if len(members) < 6 {
		t.Fatalf("a running cluster has the processes %v", members)
	}
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	s.eventually("nothing is left of the cluster", func() (bool, string) {
		_, err := os.Stat(cluster.Dir)
		left := processesOf(t, cluster.Dir)
		return len(left) == 0 && errors.Is(err, os.ErrNotExist), fmt.Sprintf("processes %v, directory: %v", left, err)
	})
}

// showLogs shows the end of the log of every component.
func (c *testCluster) showLogs(t *testing.T) {
	t.Helper()
	const lines = 60
	files, err := filepath.Glob(filepath.Join(c.Dir, "logs", "*.log"))
	if err != nil {
		t.Error(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		all := strings.Split(string(content), "\n")
		t.Logf("%s:\n%s", filepath.Base(file), strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
}

// killComponent kills a component of Kubernetes with SIGKILL.
func (s *suite) killComponent(name string) {
	s.Helper()
	// It is built into localcluster, or a program of its own: see cluster.Programs.
	s.killProcess(" component "+name+" ", "/"+name+" --")
}

// killScheduler kills gpu-scheduler with SIGKILL.
func (s *suite) killScheduler() {
	s.Helper()
	s.killProcess(schedulerProcess)
}

// schedulerProcess is in the command line of gpu-scheduler and in no other.
const schedulerProcess = "/gpu-scheduler --"

// killAgent kills the agent of the simulated nodes with SIGKILL.
func (s *suite) killAgent() {
	s.Helper()
	s.killProcess("nodeagent --kubeconfig=")
}

// killProcess kills the cluster's process whose command line contains one of the texts.
func (s *suite) killProcess(texts ...string) {
	s.Helper()
	for pid, command := range processesOf(s.T, s.cluster.Dir) {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(command, text) }) {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			s.Fatal(err)
		}
		return
	}
	s.Fatalf("%q does not run: %v", texts, processesOf(s.T, s.cluster.Dir))
}

// processesOf returns the processes whose command line contains the directory.
func processesOf(t *testing.T, dir string) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skipf("needs /proc to find the processes of a cluster: %v", err)
	}
	processes := map[int]string{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		command := strings.ReplaceAll(string(line), "\x00", " ")
		if strings.Contains(command, dir) && pid != os.Getpid() {
			processes[pid] = command
		}
	}
	return processes
}

// waitUntilAPodCompletes proves that all components work together.
func (s *suite) waitUntilAPodCompletes(name string) {
	s.Helper()
	pods := s.cluster.kube.CoreV1().Pods(s.namespace)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"simulation.falldio.com/duration": "100ms"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "x", Image: "x"}}},
	}
	s.eventually("the API server takes a Pod", func() (bool, string) {
		_, err := pods.Create(s.Context(), pod, metav1.CreateOptions{})
		return err == nil, fmt.Sprint(err)
	})
	begin := time.Now()
	s.eventually("Pod "+name+" has succeeded", func() (bool, string) {
		got, err := pods.Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		return got.Status.Phase == corev1.PodSucceeded, fmt.Sprintf("%s on node %q: %+v", got.Status.Phase, got.Spec.NodeName, got.Status.Conditions)
	})
	s.Logf("Pod %s succeeded after %v", name, time.Since(begin).Round(time.Millisecond))
}
