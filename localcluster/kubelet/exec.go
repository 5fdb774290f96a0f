// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"falldio.github.io/gpu-controller/localcluster/training"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	// notFound is the exit code of shells for a command that they don't find.
	notFound = 127
	// streamTimeout is for how long a connection without traffic stays open, and how long its streams may take.
	streamTimeout = time.Minute
)

func (s *Server) serveExec(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod, err := s.podOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	container := r.PathValue("container")
	if log, err := s.logOf(pod, container); err != nil || log.Ended() {
		http.Error(w, fmt.Sprintf("container not found (%q)", container), http.StatusNotFound)
		return
	}
	remotecommand.ServeExec(w, r, &executor{s, pod}, pod.Name, string(pod.UID), container, r.URL.Query()["command"], options,
		streamTimeout, streamTimeout, remotecommand.SupportedStreamingProtocols)
}

// executor answers commands by what is known of a Pod. It runs nothing.
type executor struct {
	*Server
	pod *corev1.Pod
}

// ExecInContainer answers a command in a container of the Pod.
func (e *executor) ExecInContainer(ctx context.Context, _, _, container string, command []string, _ io.Reader, out, errOut io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	text, known := e.answer(ctx, container, strings.Join(command, " "))
	if !known && errOut != nil {
		out = errOut
	}
	if tty { // the user's terminal does not add it
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if out != nil {
		if _, err := io.WriteString(out, text); err != nil {
			return err
		}
	}
	if !known {
		return utilexec.CodeExitError{Err: errors.New("command not found"), Code: notFound}
	}
	return nil
}

func (e *executor) answer(ctx context.Context, container, command string) (text string, known bool) {
	switch command {
	case "hostname":
		return cmp.Or(e.pod.Spec.Hostname, e.pod.Name) + "\n", true
	case "env", "printenv":
		return e.environment(container), true
	case "nvidia-smi", "nvidia-smi -L":
		return e.gpus(ctx, container), true
	default:
		return fmt.Sprintf("%s: this container is simulated and knows only env, hostname and nvidia-smi\n", command), false
	}
}

// environment returns the variables of a container, without those that come from other objects.
func (e *executor) environment(container string) string {
	var lines strings.Builder
	fmt.Fprintf(&lines, "HOSTNAME=%s\n", cmp.Or(e.pod.Spec.Hostname, e.pod.Name))
	var references []string
	for _, variable := range training.Container(e.pod, container).Env {
		if variable.ValueFrom != nil {
			continue
		}
		value := strings.NewReplacer(references...).Replace(variable.Value)
		references = append(references, "$("+variable.Name+")", value)
		fmt.Fprintf(&lines, "%s=%s\n", variable.Name, value)
	}
	return lines.String()
}

// gpus lists the GPUs of a container as nvidia-smi -L does.
func (e *executor) gpus(ctx context.Context, container string) string {
	model := "GPU"
	if node, err := e.Kube.CoreV1().Nodes().Get(ctx, e.pod.Spec.NodeName, metav1.GetOptions{}); err == nil {
		model = cmp.Or(node.Labels[v1.LabelGPUModel], model)
	}
	var lines strings.Builder
	for index, id := range training.Devices(e.pod, container) {
		fmt.Fprintf(&lines, "GPU %d: %s (UUID: %s)\n", index, model, id)
	}
	return cmp.Or(lines.String(), "No devices were found\n")
}
