// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/test/node"
)

// TestPodsThatAFullDiskEvictsOrRefusesAreReplaced has a kubelet that is short of disk space. It stops a Pod, whose
// program ends with exit code 0, and refuses another one that tolerates the node's taint.
func TestPodsThatAFullDiskEvictsOrRefusesAreReplaced(t *testing.T) {
	s := newScene(t)
	s.createTask("evicted", 1)
	old := s.waitForPod("evicted")
	disk := s.limitDisk()
	disk.fill()
	s.waitForCause("evicted", "Pod evicted on node real-0 was stopped by its node: The node was low on resource: ephemeral-storage")
	s.countsAs(s.endOf(old), podfacts.Lost, "stopped by its node")

	s.createTolerantTask("refused", corev1.TaintNodeDiskPressure)
	s.waitForCause("refused", "Pod was rejected: The node had condition: [DiskPressure]")
	s.waitForTask("refused", v1.PhasePending, "node real-0 has refused Pod refused")
	s.countsAs(s.getPod("refused"), podfacts.Refused, "refused by its node")

	disk.empty()
	s.runsWithoutFailure("evicted")
	s.runsWithoutFailure("refused")
}

// TestPodsThatATaintDrivesAwayAreReplaced has a Pod whose program ends with exit code 0 when it is stopped. That
// does not count, as the Pod was deleted before.
func TestPodsThatATaintDrivesAwayAreReplaced(t *testing.T) {
	s := newScene(t)
	s.createTask("train", 1)
	old := s.waitForPod("train")
	untaint := func() { s.patchNode(`{"spec": {"taints": null}}`) }
	t.Cleanup(untaint)
	s.patchNode(`{"spec": {"taints": [{"key": "example.com/broken", "effect": "NoExecute"}]}}`)
	s.waitForCause("train", "Pod train on node real-0 was lost with its node: Taint manager: deleting due to NoExecute taint")
	s.countsAs(s.endOf(old), podfacts.Succeeded, "lost with its node")
	s.waitForTask("train", v1.PhasePending, "1 node has a taint that is not tolerated")
	untaint()
	s.runsWithoutFailure("train")
}

// TestPodsThatAreLostInARebootAreReplaced loses containers in the ways in which nodes do.
func TestPodsThatAreLostInARebootAreReplaced(t *testing.T) {
	tests := map[string]struct {
		reboot func(*scene)
		cause  string
	}{
		"of the runtime": {(*scene).rebootRuntime, "Pod train on node real-0 was lost with its node"},
		"of a runtime that forgets its containers": {(*scene).rebootForgetfulRuntime, "Pod train on node real-0 was lost with its node"},
		"of the node": {(*scene).rebootNode, "Pod was rejected: Allocate failed due to no healthy devices present"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.createTask("train", 1)
			old := s.waitForPod("train")
			tc.reboot(s)
			s.waitForCause("train", tc.cause)
			if end := s.endOf(old); podfacts.EverStarted(end) {
				s.countsAs(end, podfacts.Lost, "lost with its node")
			} else { // the kubelet writes only that it has rejected the Pod if that was faster than its look at containers
				s.countsAs(end, podfacts.Refused, "refused by its node")
			}
			if !s.node.agent.Running() {
				s.startAgent()
			}
			s.runsWithoutFailure("train")
		})
	}
}

// rebootRuntime restarts containerd, which finds none of its containers running.
func (s *scene) rebootRuntime() {
	s.Helper()
	s.must(s.node.KillRuntime())
	s.must(s.node.StartRuntime())
}

// rebootForgetfulRuntime does so while the kubelet does not run, and containerd does not even know its containers any
// more.
func (s *scene) rebootForgetfulRuntime() {
	s.Helper()
	s.must(s.node.Kubelet.Kill())
	s.rebootRuntime()
	containers, err := os.ReadDir("/var/lib/containerd/io.containerd.grpc.v1.cri/containers")
	s.must(err)
	for _, container := range containers {
		s.must(node.Ctr("--namespace", "k8s.io", "containers", "rm", container.Name()))
	}
	s.rebootRuntime() // it has them in memory
	s.must(s.node.Kubelet.Start())
}

// rebootNode leaves the agent stopped. It is a Pod in clusters, and starts later than the kubelet has judged those
// that ran.
func (s *scene) rebootNode() {
	s.Helper()
	before := s.getNode().Status.NodeInfo.BootID
	s.must(s.node.agent.Kill())
	s.must(s.node.PowerOff())
	s.must(s.node.StartRuntime())
	s.must(s.node.Kubelet.Start())
	s.eventually("the node has another boot ID", func() (bool, string) {
		now := s.getNode().Status.NodeInfo.BootID
		return now != before, now
	})
}

// waitForCause waits until a task says for what cause it has lost a Pod, or why a node has refused one.
func (s *scene) waitForCause(name, text string) {
	s.Helper()
	s.eventually(fmt.Sprintf("GPUTask %s says: %s", name, text), func() (bool, string) {
		var said string
		status := s.getTask(name).Status
		if status.Losses != nil {
			said = status.Losses.Message
		}
		if status.Refusals != nil {
			said += status.Refusals.Message
		}
		return strings.Contains(said, text), fmt.Sprintf("%s: %q", status.Message, said)
	})
}

// runsWithoutFailure waits until a task runs, and checks that no failure of it has counted.
func (s *scene) runsWithoutFailure(name string) {
	s.Helper()
	s.waitForTask(name, v1.PhaseRunning, "")
	if status := s.getTask(name).Status; status.Restarts != 0 || status.TaskRestarts != nil || status.PodRestarts != nil || status.LastFailureTime != nil {
		s.Errorf("GPUTask %s has failed: %+v", name, status)
	}
}

func (s *scene) getTask(name string) *v1.GPUTask {
	s.Helper()
	task, err := s.node.Tasks.FalldioV1().GPUTasks(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
	s.must(err)
	return task
}

// countsAs checks what a Pod that has ended counts as, and who has ended it.
func (s *scene) countsAs(pod *corev1.Pod, want podfacts.Outcome, by string) {
	s.Helper()
	if got, stopped := podfacts.OutcomeOf(pod), podfacts.StoppedBy(pod); got != want || stopped != by {
		s.Errorf("Pod %s counts as %v, %q; want %v, %q: %s", pod.Name, got, stopped, want, by, pod.Status.String())
	}
}

// endOf waits until a Pod is gone, and returns what it was then. None of its revisions may have counted as failed.
func (s *scene) endOf(pod *corev1.Pod) *corev1.Pod {
	s.Helper()
	revisions := s.revisionsOf(pod)
	for _, now := range revisions {
		if podfacts.OutcomeOf(now) == podfacts.Failed {
			s.Errorf("Pod %s counts as failed: %s", now.Name, now.Status.String())
		}
	}
	return revisions[len(revisions)-1]
}

// revisionsOf returns what a Pod has become from a revision on, until it was gone.
func (s *scene) revisionsOf(pod *corev1.Pod) []*corev1.Pod {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	watcher, err := s.node.Kube.CoreV1().Pods(s.namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + pod.Name, ResourceVersion: pod.ResourceVersion,
	})
	s.must(err)
	defer watcher.Stop()
	var revisions []*corev1.Pod
	for event := range watcher.ResultChan() {
		now, ok := event.Object.(*corev1.Pod)
		if !ok || now.UID != pod.UID {
			continue
		}
		revisions = append(revisions, now)
		if event.Type == watch.Deleted {
			return revisions
		}
	}
	s.Fatalf("Pod %s is not gone within %v", pod.Name, limit)
	return nil
}

// createTolerantTask submits a GPUTask of one Pod that tolerates a taint of nodes.
func (s *scene) createTolerantTask(name, taint string) {
	s.Helper()
	spec := appSpec()
	spec.Tolerations = []corev1.Toleration{{Key: taint, Operator: corev1.TolerationOpExists}}
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.GPUTaskSpec{GPU: gpuModel, GPUAmount: "1", Template: &corev1.PodTemplateSpec{Spec: spec}},
	}
	_, err := s.node.Tasks.FalldioV1().GPUTasks(s.namespace).Create(s.Context(), task, metav1.CreateOptions{})
	s.must(err)
}

// limitedDisk is the kubelet's, of which a file takes so much that too little is left.
type limitedDisk struct {
	*scene
	file string
	size int64
}

// limitDisk restarts the kubelet so that it evicts Pods once its disk has a little less space than now.
func (s *scene) limitDisk() *limitedDisk {
	s.Helper()
	const margin = 64 << 20
	var system syscall.Statfs_t
	s.must(syscall.Statfs(node.KubeletDirectory, &system))
	free := int64(system.Bavail) * system.Bsize
	kubelet := s.node.Kubelet
	before := kubelet.Args
	s.Cleanup(func() {
		kubelet.Args = before
		s.restart(kubelet)
	})
	kubelet.Args = slices.Concat(before, []string{
		fmt.Sprintf("--eviction-hard=nodefs.available<%d", free-margin), "--eviction-pressure-transition-period=1s",
	})
	s.restart(kubelet)
	disk := &limitedDisk{scene: s, file: filepath.Join(node.KubeletDirectory, "ballast"), size: 2 * margin}
	s.Cleanup(disk.empty)
	return disk
}

func (d *limitedDisk) fill() {
	d.Helper()
	file, err := os.Create(d.file)
	d.must(err)
	d.must(syscall.Fallocate(int(file.Fd()), 0, 0, d.size))
	d.must(file.Close())
}

func (d *limitedDisk) empty() {
	if err := os.RemoveAll(d.file); err != nil {
		d.Error(err)
	}
}

// must ends the test at an error.
func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
