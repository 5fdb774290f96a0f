// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Options choose what is read of each Pod.
type Options struct {
	// Container is read; by default the one that has the GPUs.
	Container string
	// Tail is how many lines from the end are read; all if it is negative.
	Tail int64
	// Since is the age of the oldest line; 0 is no limit.
	Since time.Duration
	// Timestamps are written in front of the lines.
	Timestamps bool
	// Previous reads the instance before the last restart.
	Previous bool
}

func (o *Options) podLogOptions(container string) *corev1.PodLogOptions {
	options := &corev1.PodLogOptions{Container: container, Timestamps: o.Timestamps, Previous: o.Previous}
	if o.Tail >= 0 {
		options.TailLines = &o.Tail
	}
	if o.Since > 0 {
		options.SinceSeconds = new(int64(max(1, o.Since/time.Second)))
	}
	return options
}

// Log is the log of one of a task's Pods.
type Log struct {
	Options
	Kube kubernetes.Interface
	// Write takes the lines, without their line feeds.
	Write func(line string)
}

// ErrNotStarted is returned for a container that has no log yet.
var ErrNotStarted = errors.New("the container has not started")

// Print writes what a Pod has written so far.
func (l *Log) Print(ctx context.Context, pod *corev1.Pod) error {
	container := ContainerOf(pod, l.Container)
	if !l.Previous && !Started(pod, container) {
		return ErrNotStarted
	}
	return l.read(ctx, pod, l.podLogOptions(container), func(line string, _ bool) { l.Write(line) })
}

// read passes on the lines of a log. A line without a line feed is the last one: the end of the
// log, or all that there was of the line when the connection was closed. What a broken
// connection has left of a line is dropped.
func (l *Log) read(ctx context.Context, pod *corev1.Pod, options *corev1.PodLogOptions, take func(line string, whole bool)) error {
	stream, err := l.Kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return fmt.Errorf("reading the log of Pod %s: %w", pod.Name, err)
	}
	defer func() { _ = stream.Close() }()
	reader := bufio.NewReader(stream)
	for {
		line, err := reader.ReadString('\n')
		if err == nil {
			take(strings.TrimSuffix(line, "\n"), true)
			continue
		}
		if errors.Is(err, io.EOF) {
			if line != "" {
				take(line, false)
			}
			return nil
		}
		return fmt.Errorf("reading the log of Pod %s: %w", pod.Name, err)
	}
}

// from returns options that read on, with timestamps. The zero time reads what the user asked
// for.
func (o *Options) from(container string, at time.Time) *corev1.PodLogOptions {
	options := o.podLogOptions(container)
	options.Timestamps = true
	if !at.IsZero() {
		options.TailLines, options.SinceSeconds, options.SinceTime = nil, nil, &metav1.Time{Time: at}
	}
	return options
}
