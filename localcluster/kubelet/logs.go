// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"falldio.github.io/gpu-controller/localcluster/training"
)

// stampLayout is how a kubelet writes times in front of lines.
const stampLayout = "2006-01-02T15:04:05.000000000Z07:00"

// writeEvery is how often a log that is followed grows.
const writeEvery = time.Second

func (s *Server) serveLogs(w http.ResponseWriter, r *http.Request) {
	options, err := readOptions(r.URL.Query(), s.Clock.Now())
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
	log, err := s.logOf(pod, container)
	if err == nil && options.previous { // containers are not restarted in their Pods
		err = fmt.Errorf("previous terminated container %q in pod %q not found", container, pod.Name)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	out := &writer{options: options, to: w, flush: http.NewResponseController(w).Flush}
	lines, read := log.Lines(training.Read{}, s.Clock.Now())
	if out.write(options.choose(lines)) && options.follow && !log.Ended() {
		s.follow(r.Context(), pod, container, read, out)
	}
}

// follow writes what is new in a log until the container ends, or the reader is gone.
func (s *Server) follow(ctx context.Context, pod *corev1.Pod, container string, read training.Read, out *writer) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String()
	changes, err := watchtools.NewRetryWatcherWithContext(ctx, pod.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return s.Kube.CoreV1().Pods(pod.Namespace).Watch(ctx, options)
		},
	})
	if err != nil {
		return
	}
	defer changes.Stop()
	for gone := false; ; {
		select {
		case <-s.Clock.After(writeEvery):
		case change, open := <-changes.ResultChan():
			changed, ok := change.Object.(*corev1.Pod)
			if !open || !ok {
				return
			}
			pod, gone = changed, changed.DeletionTimestamp != nil || change.Type == watch.Deleted
		}
		log, err := s.logOf(pod, container)
		if err != nil {
			return
		}
		now := s.Clock.Now()
		if gone && !log.Ended() {
			log.Stop(stoppedAt(pod, now), s.savesWhenStopped(ctx, pod))
		}
		lines, next := log.Lines(read, now)
		if read = next; !out.write(lines) || log.Ended() {
			return
		}
	}
}

// stoppedAt returns when the program of a Pod stops that is gone now, or that is being deleted.
func stoppedAt(pod *corev1.Pod, now time.Time) time.Time {
	if at := training.StoppedAt(pod); !at.IsZero() {
		return at
	}
	return now
}

// options are what of a log is wanted, and how.
type options struct {
	follow, timestamps, previous bool
	// tail is how many lines are wanted, and bytes how many bytes; nil if all are.
	tail, bytes *int64
	since       time.Time
}

// readOptions reads the options of a request, as corev1.PodLogOptions has them.
func readOptions(query url.Values, now time.Time) (o options, err error) {
	for name, value := range map[string]*bool{"follow": &o.follow, "timestamps": &o.timestamps, "previous": &o.previous} {
		if text := query.Get(name); text != "" && err == nil {
			*value, err = strconv.ParseBool(text)
		}
	}
	var seconds *int64
	for name, value := range map[string]**int64{"tailLines": &o.tail, "limitBytes": &o.bytes, "sinceSeconds": &seconds} {
		if text := query.Get(name); text != "" && err == nil {
			*value = new(int64)
			**value, err = strconv.ParseInt(text, 10, 64)
		}
	}
	if text := query.Get("sinceTime"); text != "" && err == nil {
		o.since, err = time.Parse(time.RFC3339, text)
	}
	if seconds != nil {
		o.since = now.Add(-time.Duration(*seconds) * time.Second)
	}
	return o, err
}

// choose returns the lines that are wanted of those that there are already.
func (o *options) choose(lines []training.Line) []training.Line {
	for len(lines) > 0 && lines[0].At.Before(o.since) {
		lines = lines[1:]
	}
	if o.tail != nil {
		lines = lines[max(0, len(lines)-int(*o.tail)):]
	}
	return lines
}

// writer writes lines to a reader.
type writer struct {
	options options
	to      io.Writer
	flush   func() error
}

// write reports whether more can be written.
func (w *writer) write(lines []training.Line) bool {
	for _, line := range lines {
		text := line.Text + "\n"
		if w.options.timestamps {
			text = line.At.UTC().Format(stampLayout) + " " + text
		}
		if left := w.options.bytes; left != nil {
			text = text[:min(int64(len(text)), *left)]
			*left -= int64(len(text))
		}
		if _, err := io.WriteString(w.to, text); err != nil {
			return false
		}
	}
	return w.flush() == nil && (w.options.bytes == nil || *w.options.bytes > 0)
}
