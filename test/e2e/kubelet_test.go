// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// kubelet serves logs and commands of the Pods of a node to a real API server. KWOK, which
// simulates the other nodes, has neither.
type kubelet struct {
	s    *suite
	node string

	mu sync.Mutex
	// lines are those of each Pod, by name, with timestamps.
	lines map[string][]string
	ended map[string]bool
	grown chan struct{}
	// cut ends all streams of logs when it is closed.
	cut chan struct{}
}

// startKubelet adds a node whose kubelet is in the test.
func (s *suite) startKubelet() *kubelet {
	s.Helper()
	k := &kubelet{s: s, lines: map[string][]string{}, ended: map[string]bool{}, grown: make(chan struct{}), cut: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", k.serveLogs)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.serveExec)
	server := httptest.NewTLSServer(mux)
	s.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		s.Fatal(err)
	}
	host, text, err := net.SplitHostPort(address.Host)
	if err != nil {
		s.Fatal(err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		s.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "kubelet-"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	nodes := s.cluster.kube.CoreV1().Nodes()
	created, err := nodes.Create(s.Context(), node, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	k.node = created.Name
	s.Cleanup(func() {
		if err := nodes.Delete(context.WithoutCancel(s.Context()), k.node, metav1.DeleteOptions{}); err != nil {
			s.Errorf("deleting node %s: %v", k.node, err)
		}
	})
	return k
}

// run creates the Pods of a task, as the controller would, and lets them run.
func (k *kubelet) run(task *v1.GPUTask) {
	k.s.Helper()
	for index := range gputask.Replicas(task) {
		k.runPod(task, index)
	}
}

func (k *kubelet) runPod(task *v1.GPUTask, index int) {
	k.s.Helper()
	pod, err := gputask.NewPod(task, index, 0, gputask.PodDefaults{Image: "any"})
	if err != nil {
		k.s.Fatal(err)
	}
	pod.Spec.NodeName, pod.Finalizers = k.node, nil
	pods := k.s.cluster.kube.CoreV1().Pods(k.s.namespace)
	if pod, err = pods.Create(k.s.Context(), pod, metav1.CreateOptions{}); err != nil {
		k.s.Fatal(err)
	}
	k.setState(pod.Name, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
}

// end ends the container of a Pod.
func (k *kubelet) end(pod string) {
	k.s.Helper()
	k.change(func() { k.ended[pod] = true })
	k.setState(pod, corev1.PodSucceeded, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})
}

func (k *kubelet) setState(name string, phase corev1.PodPhase, state corev1.ContainerState) {
	k.s.Helper()
	pods := k.s.cluster.kube.CoreV1().Pods(k.s.namespace)
	k.s.eventually("Pod "+name+" is "+string(phase), func() (bool, string) {
		pod, err := pods.Get(k.s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		pod.Status.Phase = phase
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1.ContainerName, State: state, Image: "any", ImageID: "any"}}
		_, err = pods.UpdateStatus(k.s.Context(), pod, metav1.UpdateOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// write appends a line to the log of a Pod.
func (k *kubelet) write(pod, text string) {
	k.change(func() { k.lines[pod] = append(k.lines[pod], time.Now().UTC().Format(time.RFC3339Nano)+" "+text) })
}

// cutStreams ends all streams of logs, as a kubelet does that is restarted.
func (k *kubelet) cutStreams() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.cut)
	k.cut = make(chan struct{})
}

func (k *kubelet) change(apply func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	apply()
	close(k.grown)
	k.grown = make(chan struct{})
}

func (k *kubelet) serveLogs(w http.ResponseWriter, r *http.Request) {
	query, pod := r.URL.Query(), r.PathValue("pod")
	since, err := time.Parse(time.RFC3339, query.Get("sinceTime"))
	if err != nil {
		since = time.Time{}
	}
	k.mu.Lock()
	cut := k.cut
	k.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	for position := 0; ; {
		k.mu.Lock()
		lines, ended, grown := k.lines[pod], k.ended[pod], k.grown
		k.mu.Unlock()
		for ; position < len(lines); position++ {
			stamp, text, _ := strings.Cut(lines[position], " ")
			if at, err := time.Parse(time.RFC3339Nano, stamp); err != nil || at.Before(since) {
				continue
			}
			if query.Get("timestamps") == "true" {
				text = lines[position]
			}
			fmt.Fprintln(w, text)
		}
		w.(http.Flusher).Flush()
		if ended || query.Get("follow") != "true" {
			return
		}
		select {
		case <-grown:
		case <-cut:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (k *kubelet) serveExec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, container{}, r.PathValue("pod"), "", r.PathValue("container"), r.URL.Query()["command"], options,
		time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
}

// container can run "cat", and "exit", which exits with 7.
type container struct{}

func (container) ExecInContainer(_ context.Context, pod, _, _ string, command []string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	fmt.Fprintf(out, "%s: %s\n", pod, strings.Join(command, " "))
	switch command[0] {
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "exit":
		return utilexec.CodeExitError{Err: errors.New("command terminated with exit code 7"), Code: 7}
	default:
		return nil
	}
}
