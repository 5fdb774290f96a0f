// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bufio"
	"io"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/kubectl-gputask/podlogs"
)

const (
	defaultTail = 500
	maxTail     = 5000
	// maxLine is how much of a line is sent.
	maxLine = 64 << 10
)

// logs streams what a container of a task's Pod writes, as text. It is read with the viewer's rights.
func (s *Server) logs(w http.ResponseWriter, r *http.Request, viewer *access.Viewer) error {
	query, ctx, namespace := r.URL.Query(), r.Context(), r.PathValue("namespace")
	options := podlogs.Options{Container: query.Get("container"), Tail: defaultTail}
	if text := query.Get("tail"); text != "" {
		tail, err := strconv.ParseInt(text, 10, 64)
		if err != nil || tail < 0 || tail > maxTail {
			return failed(http.StatusBadRequest, "The parameter tail must be a number from 0 to %d.", maxTail)
		}
		options.Tail = tail
	}
	task, err := viewer.Clients.Tasks.FalldioV1().GPUTasks(namespace).Get(ctx, r.PathValue("name"), metav1.GetOptions{})
	if err != nil {
		return err
	}
	pod, err := viewer.Clients.Kube.CoreV1().Pods(namespace).Get(ctx, query.Get("pod"), metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case !metav1.IsControlledBy(pod, task):
		return failed(http.StatusNotFound, "The task %s has no Pod %s.", task.Name, printable(query.Get("pod")))
	}
	request := viewer.Clients.Kube.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: podlogs.ContainerOf(pod, options.Container), Follow: query.Get("follow") == "true", TailLines: &options.Tail,
	})
	lines, err := request.Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lines.Close() }()
	copyLines(newStream(w, r, "text/plain; charset=utf-8"), lines)
	return nil
}

// copyLines copies text as it comes.
func copyLines(out *stream, in io.Reader) {
	reader := bufio.NewReaderSize(in, maxLine)
	if out.write("") != nil { // the viewer knows now that there is a log
		return
	}
	for {
		chunk, err := reader.ReadSlice('\n')
		if len(chunk) > 0 && out.write("%s", chunk) != nil {
			return
		}
		if err != nil && err != bufio.ErrBufferFull { //nolint:errorlint // it is returned as it is
			return
		}
	}
}
