// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podlogs_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/podlogs"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	taskfake "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/fake"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// limit is how long a test waits for something that takes milliseconds.
const limit = 30 * time.Second

// kubelet serves the logs of the Pods of a fake API server over HTTP, with breaks.
type kubelet struct {
	mu   sync.Mutex
	logs map[string]*containerLog // by UID and restarts
	// broken is asked before each line, and whether the connection breaks there.
	broken func() breakage
	// refusal, if set, is the answer to each request.
	refusal  *errors.StatusError
	requests int
	grown    chan struct{}
}

// containerLog is what one instance of a container has written.
type containerLog struct {
	lines []string // with timestamps
	tail  string   // a last line without a line feed
	ended bool
}

type breakage int

const (
	goesOn breakage = iota
	endsCleanly
	isCut
	isCutInALine
)

func (k *kubelet) write(instance string, lines ...string) {
	k.change(instance, func(log *containerLog) { log.lines = append(log.lines, lines...) })
}

func (k *kubelet) change(instance string, apply func(*containerLog)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.logs[instance] == nil {
		k.logs[instance] = &containerLog{}
	}
	apply(k.logs[instance])
	close(k.grown)
	k.grown = make(chan struct{})
}

// next returns the line at a position, whether the log ends there, and what tells of changes.
func (k *kubelet) next(instance string, position int) (line string, ended bool, grown <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	log := k.logs[instance]
	if log == nil {
		return "", false, k.grown
	}
	if position < len(log.lines) {
		return log.lines[position] + "\n", false, k.grown
	}
	if position == len(log.lines) && log.tail != "" && log.ended {
		return log.tail, false, k.grown
	}
	return "", log.ended, k.grown
}

func (k *kubelet) serve(w http.ResponseWriter, r *http.Request, instance string) {
	query := r.URL.Query()
	follow, since := query.Get("follow") == "true", query.Get("sinceTime")
	begin := time.Time{}
	if since != "" {
		begin, _ = time.Parse(time.RFC3339, since)
	}
	for position := k.first(instance, query.Get("tailLines")); ; position++ {
		line, ended, grown := k.next(instance, position)
		for line == "" && !ended && follow {
			w.(http.Flusher).Flush()
			select {
			case <-grown:
			case <-r.Context().Done():
				return
			}
			line, ended, grown = k.next(instance, position)
		}
		if line == "" {
			return
		}
		stamp, text, _ := strings.Cut(line, " ")
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && at.Before(begin) {
			continue
		}
		if query.Get("timestamps") != "true" {
			line = text
		}
		if !k.send(w, line, follow) {
			return
		}
	}
}

// first returns the first line to serve, given the parameter tailLines.
func (k *kubelet) first(instance, tail string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	var count int
	if _, err := fmt.Sscan(tail, &count); err != nil || k.logs[instance] == nil {
		return 0
	}
	return max(0, len(k.logs[instance].lines)-count)
}

// send serves a line, unless the stream breaks. It returns false if it ends before.
func (k *kubelet) send(w http.ResponseWriter, line string, follow bool) bool {
	switch k.broken() {
	case endsCleanly:
		if follow {
			return false
		}
	case isCut:
		panic(http.ErrAbortHandler)
	case isCutInALine:
		fmt.Fprint(w, line[:len(line)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	case goesOn:
	}
	fmt.Fprint(w, line)
	w.(http.Flusher).Flush()
	return true
}

// kube is a fake clientset whose logs come from the kubelet, over real connections.
type kube struct {
	*kubefake.Clientset
	logs rest.Interface
}

func (k kube) CoreV1() typedcorev1.CoreV1Interface { return core{k.Clientset.CoreV1(), k.logs} }

type core struct {
	typedcorev1.CoreV1Interface
	logs rest.Interface
}

func (c core) Pods(namespace string) typedcorev1.PodInterface {
	return pods{c.CoreV1Interface.Pods(namespace), c.logs, namespace}
}

type pods struct {
	typedcorev1.PodInterface
	logs      rest.Interface
	namespace string
}

func (p pods) GetLogs(name string, options *corev1.PodLogOptions) *rest.Request {
	return p.logs.Get().Namespace(p.namespace).Resource("pods").Name(name).SubResource("log").VersionedParams(options, scheme.ParameterCodec)
}

// fixture is a task of one Pod whose log is followed.
type fixture struct {
	*testing.T
	*kubelet
	kube  kube
	tasks *taskfake.Clientset
	task  *v1.GPUTask
	mu    sync.Mutex
	lines []string
	wrote chan struct{}
	warns []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		T: t, kubelet: &kubelet{logs: map[string]*containerLog{}, broken: func() breakage { return goesOn }, grown: make(chan struct{})},
		tasks: taskfake.NewClientset(), wrote: make(chan struct{}),
		task: &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default", UID: "task"}},
	}
	server := httptest.NewServer(http.HandlerFunc(f.answer))
	t.Cleanup(server.Close)
	logs, err := typedcorev1.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	f.kube = kube{Clientset: kubefake.NewClientset(), logs: logs.RESTClient()}
	if err := f.tasks.Tracker().Add(f.task.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) answer(w http.ResponseWriter, r *http.Request) {
	f.kubelet.mu.Lock()
	f.requests++
	refusal := f.refusal
	f.kubelet.mu.Unlock()
	if refusal != nil {
		http.Error(w, refusal.Error(), int(refusal.ErrStatus.Code))
		return
	}
	name := path.Base(path.Dir(r.URL.Path))
	pod, err := f.kube.Clientset.CoreV1().Pods("default").Get(r.Context(), name, metav1.GetOptions{})
	if err != nil {
		http.NotFound(w, r)
		return
	}
	restarts := pod.Status.ContainerStatuses[0].RestartCount
	if r.URL.Query().Get("previous") == "true" {
		restarts--
	}
	f.serve(w, r, instanceName(pod.UID, restarts))
}

func instanceName(uid types.UID, restarts int32) string { return fmt.Sprintf("%s/%d", uid, restarts) }

// pod sets the task's Pod to an instance of its container.
func (f *fixture) pod(uid types.UID, restarts int32, state corev1.ContainerState) {
	f.Helper()
	pod, err := gputask.NewPod(f.task, 0, 0, gputask.PodDefaults{Image: "any"})
	if err != nil {
		f.Fatal(err)
	}
	pod.Namespace, pod.UID = "default", uid
	pod.Status.Phase = corev1.PodRunning
	if state.Terminated != nil {
		pod.Status.Phase = corev1.PodSucceeded
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1.ContainerName, RestartCount: restarts, State: state}}
	api := f.kube.Clientset.CoreV1().Pods("default")
	old, err := api.Get(f.Context(), pod.Name, metav1.GetOptions{})
	if err == nil && old.UID == uid {
		_, err = api.Update(f.Context(), pod, metav1.UpdateOptions{})
	} else {
		if err == nil {
			if err := api.Delete(f.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				f.Fatal(err)
			}
		}
		_, err = api.Create(f.Context(), pod, metav1.CreateOptions{})
	}
	if err != nil {
		f.Fatal(err)
	}
}

func runs() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
}

func exited() corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
}

// succeeds ends the log, the Pod and the task.
func (f *fixture) succeeds(uid types.UID, restarts int32) {
	f.Helper()
	f.change(instanceName(uid, restarts), func(log *containerLog) { log.ended = true })
	f.pod(uid, restarts, exited())
	f.finish()
}

func (f *fixture) finish() {
	f.Helper()
	task := f.task.DeepCopy()
	task.Status.Phase = v1.PhaseSucceeded
	if _, err := f.tasks.FalldioV1().GPUTasks("default").Update(f.Context(), task, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
}

// quick is a clock whose timers expire a hundred times sooner.
type quick struct{ clock.RealClock }

func (q quick) NewTimer(d time.Duration) clock.Timer { return q.RealClock.NewTimer(d / 100) }

// follow begins to follow the Pod, and returns what waits for the end.
func (f *fixture) follow(options podlogs.Options) (wait func() error) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), limit)
	f.Cleanup(cancel)
	clients := &cluster.Clients{Kube: f.kube, Tasks: f.tasks, Namespace: "default"}
	members, err := podlogs.Watch(ctx, clients, "default", []v1.GPUTask{*f.task}, func(string) cache.WatchErrorHandlerWithContext {
		return cache.DefaultWatchErrorHandler
	})
	if err != nil {
		f.Fatal(err)
	}
	follower := &podlogs.Follower{
		Log:     podlogs.Log{Options: options, Kube: f.kube, Write: f.receive},
		Members: members, Task: f.task, Pod: "train", Streams: podlogs.NewLimit(1), Reads: podlogs.NewLimit(1),
		Clock: quick{}, Pause: 100 * time.Millisecond, Warn: func(err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.warns = append(f.warns, err.Error())
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- follower.Run(ctx) }()
	return func() error { return <-ended }
}

func (f *fixture) receive(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, line)
	close(f.wrote)
	f.wrote = make(chan struct{})
}

// waitFor waits until as many lines were written.
func (f *fixture) waitFor(count int) {
	f.Helper()
	deadline := time.After(limit)
	for {
		f.mu.Lock()
		got, wrote := len(f.lines), f.wrote
		f.mu.Unlock()
		if got >= count {
			return
		}
		select {
		case <-wrote:
		case <-deadline:
			f.Fatalf("%d lines after %v, want %d", got, limit, count)
		}
	}
}

func forbidden() *errors.StatusError {
	return errors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, "train", nil)
}
