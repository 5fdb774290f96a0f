// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	utilexec "k8s.io/utils/exec"

	"falldio.github.io/gpu-controller/localcluster/stages"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	tasksfake "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/fake"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

var now = time.Date(2026, 7, 1, 12, 0, 3, 0, time.UTC)

// runningPod returns a Pod of a task that has started 3 s ago.
func runningPod(uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "train", Namespace: "default", UID: uid, ResourceVersion: "1", Labels: map[string]string{v1.LabelTask: "train"},
			Annotations:     map[string]string{stages.AnnotationFinishAt: now.Add(7 * time.Second).Format(time.RFC3339Nano)},
			OwnerReferences: []metav1.OwnerReference{{Name: "train", UID: "task", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: v1.ContainerName, Image: "trainer", Env: []corev1.EnvVar{
			{Name: "MASTER_ADDR", Value: "train-0.train"}, {Name: "ENDPOINT", Value: "$(MASTER_ADDR):29500"},
			{Name: "KEY", ValueFrom: &corev1.EnvVarSource{}},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: v1.ContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-3 * time.Second))}},
		}}},
	}
}

func taskThat(mode v1.CheckpointMode) *v1.GPUTask {
	return &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default", UID: "task"},
		Spec:       v1.GPUTaskSpec{Checkpoint: &v1.Checkpoint{Mode: mode}},
	}
}

func newServer(t *testing.T, task *v1.GPUTask, pods ...*corev1.Pod) *Server {
	t.Helper()
	server := &Server{
		Kube: fake.NewClientset(), Tasks: tasksfake.NewClientset(task), PodDuration: 10 * time.Second, Clock: clocktesting.NewFakeClock(now),
		Trouble: func(format string, args ...any) { t.Errorf(format, args...) },
	}
	for _, pod := range pods {
		if _, err := server.Kube.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return server
}

func TestALogIsReadAsTheRequestSays(t *testing.T) {
	waiting, gone := runningPod("u"), runningPod("u")
	waiting.Name, waiting.Status.ContainerStatuses[0].State = "waiting", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	gone.Name, gone.Status.ContainerStatuses = "refused", nil
	const all = "simulated on node n: the program of image trainer\nstarting at step 0\n" +
		"epoch 1/10  step 10/100  loss 1.8979\nepoch 2/10  step 20/100  loss 1.3966\nepoch 3/10  step 30/100  loss 1.0031\n"
	tests := map[string]struct {
		path string
		code int
		want string
	}{
		"all of it":               {"train/gpu-task", http.StatusOK, all},
		"its last line":           {"train/gpu-task?tailLines=1", http.StatusOK, "epoch 3/10  step 30/100  loss 1.0031\n"},
		"no line":                 {"train/gpu-task?tailLines=0", http.StatusOK, ""},
		"of the last second":      {"train/gpu-task?sinceSeconds=1", http.StatusOK, all[len(all)-2*37:]},
		"since a time":            {"train/gpu-task?sinceTime=2026-07-01T12:00:03Z", http.StatusOK, "epoch 3/10  step 30/100  loss 1.0031\n"},
		"its first bytes":         {"train/gpu-task?limitBytes=9", http.StatusOK, "simulated"},
		"with times":              {"train/gpu-task?timestamps=true&tailLines=1", http.StatusOK, "2026-07-01T12:00:03.000000000Z epoch 3/10  step 30/100  loss 1.0031\n"},
		"of a run before":         {"train/gpu-task?previous=true", http.StatusBadRequest, "previous terminated container \"gpu-task\" in pod \"train\" not found\n"},
		"of another container":    {"train/other", http.StatusBadRequest, "container \"other\" is not valid for pod \"train\"\n"},
		"of one that waits":       {"waiting/gpu-task", http.StatusBadRequest, "container \"gpu-task\" in pod \"waiting\" is waiting to start: ContainerCreating\n"},
		"of one that never was":   {"refused/gpu-task", http.StatusBadRequest, "container \"gpu-task\" in pod \"refused\" is not available\n"},
		"of a Pod that is gone":   {"gone/gpu-task", http.StatusNotFound, "pods \"gone\" not found\n"},
		"a number that is no one": {"train/gpu-task?tailLines=x", http.StatusBadRequest, "strconv.ParseInt: parsing \"x\": invalid syntax\n"},
	}
	server := newServer(t, taskThat(v1.CheckpointNone), runningPod("u"), waiting, gone)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			response := httptest.NewRecorder()
			server.handler().ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/containerLogs/default/"+test.path, http.NoBody))
			if diff := cmp.Diff(test.want, response.Body.String()); diff != "" || response.Code != test.code {
				t.Errorf("status %d, want %d; body (-want +got):\n%s", response.Code, test.code, diff)
			}
		})
	}
}

// pipe is a response that is read while it is written.
type pipe struct {
	*io.PipeWriter
	header http.Header
}

func (p *pipe) Header() http.Header { return p.header }
func (p *pipe) WriteHeader(int)     {}
func (p *pipe) Flush()              {}

func TestALogIsFollowedUntilItsPodEnds(t *testing.T) {
	deleted := runningPod("u")
	deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = new(metav1.NewTime(now.Add(31*time.Second))), new(int64(30))
	finished := runningPod("u")
	finished.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		StartedAt: metav1.NewTime(now.Add(-3 * time.Second)), FinishedAt: metav1.NewTime(now.Add(time.Second)), ExitCode: 1,
	}}
	for name, test := range map[string]struct {
		mode v1.CheckpointMode
		last *corev1.Pod
		want string
	}{
		"it fails":                      {v1.CheckpointPreStop, finished, "failed at step 40 with exit code 1\n"},
		"it is stopped":                 {v1.CheckpointSignal, deleted, "epoch 5/10  step 50/100  loss 0.6196\nstopped at step 50\n"},
		"it is stopped and saves first": {v1.CheckpointPreStop, deleted, "epoch 5/10  step 50/100  loss 0.6196\ncheckpoint saved at step 50\nstopped at step 50\n"},
	} {
		t.Run(name, func(t *testing.T) {
			server, changes := newServer(t, taskThat(test.mode), runningPod("u")), watch.NewRaceFreeFake()
			server.Kube.(*fake.Clientset).PrependWatchReactor("pods", clienttesting.DefaultWatchReactor(changes, nil))
			out, in := io.Pipe()
			go func() {
				server.handler().ServeHTTP(&pipe{in, http.Header{}}, httptest.NewRequest(http.MethodGet, "/containerLogs/default/train/gpu-task?follow=true&tailLines=0", http.NoBody).WithContext(t.Context()))
				_ = in.Close()
			}()
			clock := server.Clock.(*clocktesting.FakeClock)
			for !clock.HasWaiters() {
				time.Sleep(time.Millisecond)
			}
			clock.Step(time.Second)
			line := make([]byte, 37)
			if _, err := io.ReadFull(out, line); err != nil || string(line) != "epoch 4/10  step 40/100  loss 0.7995\n" {
				t.Fatalf("a second later it writes %q: %v", line, err)
			}
			changes.Modify(test.last)
			rest, err := io.ReadAll(out)
			if diff := cmp.Diff(test.want, string(rest)); diff != "" || err != nil {
				t.Errorf("error %v, last lines (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestAProgramGoesOnFromWhatTheOneBeforeHasSaved(t *testing.T) {
	asked := runningPod("u")
	asked.Annotations[stages.AnnotationCheckpoints] = now.Add(-time.Second).Format(time.RFC3339Nano)
	stopped := runningPod("u")
	stopped.DeletionTimestamp, stopped.DeletionGracePeriodSeconds = new(metav1.NewTime(now.Add(30*time.Second))), new(int64(30))
	killed := runningPod("u")
	killed.DeletionTimestamp, killed.DeletionGracePeriodSeconds = new(metav1.NewTime(now)), new(int64(0))
	other := runningPod("u")
	other.OwnerReferences[0].UID, other.Annotations = "other", asked.Annotations
	from := func(step string, seconds int) map[string]string {
		return map[string]string{stages.AnnotationFirstStep: step, stages.AnnotationFinishAt: now.Add(time.Duration(7-seconds) * time.Second).Format(time.RFC3339Nano)}
	}
	anew := runningPod("v").Annotations
	for name, test := range map[string]struct {
		mode   v1.CheckpointMode
		before *corev1.Pod
		want   map[string]string
	}{
		"it was asked to save":               {v1.CheckpointSignal, asked, from("20", 2)},
		"it was stopped, and saves then":     {v1.CheckpointPreStop, stopped, from("40", 4)},
		"it was stopped without being asked": {v1.CheckpointSignal, stopped, anew},
		"it was killed":                      {v1.CheckpointPreStop, killed, anew},
		"it was of another task":             {v1.CheckpointSignal, other, anew},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, taskThat(test.mode), runningPod("v"))
			server.observe(t.Context(), test.before)
			server.observe(t.Context(), runningPod("v"))
			pod, err := server.Kube.CoreV1().Pods("default").Get(t.Context(), "train", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, pod.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

type closer struct{ bytes.Buffer }

func (*closer) Close() error { return nil }

func TestCommandsAreAnsweredByWhatIsKnownOfThePod(t *testing.T) {
	pod := runningPod("u")
	pod.Annotations[inventory.AssignmentAnnotation] = `{"version": "v1", "containers": {"gpu-task": {"falldio.com/gpu": ["GPU-b", "GPU-a"]}}}`
	without := runningPod("u")
	for name, test := range map[string]struct {
		pod         *corev1.Pod
		command     string
		tty         bool
		out, errOut string
		code        int
	}{
		"its name":       {pod, "hostname", false, "train\n", "", 0},
		"its variables":  {pod, "env", false, "HOSTNAME=train\nMASTER_ADDR=train-0.train\nENDPOINT=train-0.train:29500\n", "", 0},
		"its GPUs":       {pod, "nvidia-smi -L", false, "GPU 0: rtx4090 (UUID: GPU-a)\nGPU 1: rtx4090 (UUID: GPU-b)\n", "", 0},
		"no GPUs":        {without, "nvidia-smi", false, "No devices were found\n", "", 0},
		"on a terminal":  {pod, "hostname", true, "train\r\n", "", 0},
		"another one":    {pod, "rm -r /", false, "", "rm -r /: this container is simulated and knows only env, hostname and nvidia-smi\n", 127},
		"a shell for it": {pod, "sh", true, "sh: this container is simulated and knows only env, hostname and nvidia-smi\r\n", "", 127},
	} {
		t.Run(name, func(t *testing.T) {
			server := newServer(t, taskThat(v1.CheckpointNone))
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{v1.LabelGPUModel: "rtx4090"}}}
			if _, err := server.Kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			var out, errOut closer
			errTo := io.WriteCloser(&errOut)
			if test.tty {
				errTo = nil
			}
			err := (&executor{server, test.pod}).ExecInContainer(t.Context(), "", "", v1.ContainerName, strings.Fields(test.command), nil, &out, errTo, test.tty, nil, 0)
			code := 0
			if exit, ok := errors.AsType[utilexec.CodeExitError](err); ok {
				code = exit.Code
			}
			if out.String() != test.out || errOut.String() != test.errOut || code != test.code {
				t.Errorf("output %q, errors %q, exit code %d: %v", out.String(), errOut.String(), code, err)
			}
		})
	}
}

func TestOnlyLogsAndExecAreOffered(t *testing.T) {
	pod := runningPod("u")
	pod.Status.ContainerStatuses = nil
	server := newServer(t, taskThat(v1.CheckpointNone), pod)
	for path, want := range map[string]string{
		"/portForward/default/train":                         "simulated nodes offer logs and exec only\n",
		"/exec/default/train/gpu-task?output=1&command=sh":   "container not found (\"gpu-task\")\n",
		"/exec/default/another/gpu-task?output=1&command=sh": "pods \"another\" not found\n",
	} {
		response := httptest.NewRecorder()
		server.handler().ServeHTTP(response, httptest.NewRequest(http.MethodPost, path, http.NoBody))
		if response.Body.String() != want || response.Code < http.StatusBadRequest {
			t.Errorf("%s: status %d, %s", path, response.Code, response.Body)
		}
	}
}
