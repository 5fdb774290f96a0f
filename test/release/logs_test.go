// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package release

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// processNames are the processes that may have Pods.
var processNames = []string{"gpu-controller", "gpu-scheduler", "nodeagent", "dradriver", "gputask-dashboard"}

// logsOf returns what the container of a Pod has logged, after what the one before it has, if it was
// restarted. Together with an error it returns what could be read.
func logsOf(ctx context.Context, kube kubernetes.Interface, pod *corev1.Pod) (string, error) {
	containers := []corev1.PodLogOptions{{}}
	if restartsOf(pod) > 0 {
		containers = []corev1.PodLogOptions{{Previous: true}, {}}
	}
	var logs strings.Builder
	var failures []error
	for i := range containers {
		log, err := kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &containers[i]).DoRaw(ctx)
		if err != nil {
			failures = append(failures, fmt.Errorf("the log of Pod %s (of the container before: %t): %w", pod.Name, containers[i].Previous, err))
		}
		logs.Write(log)
	}
	return logs.String(), errors.Join(failures...)
}

// restartsOf returns how often the containers of a Pod were restarted.
func restartsOf(pod *corev1.Pod) int32 {
	restarts := int32(0)
	for i := range pod.Status.ContainerStatuses {
		restarts += pod.Status.ContainerStatuses[i].RestartCount
	}
	return restarts
}

// refusals returns the lines of a log that say that the process was not allowed to do something.
func refusals(logs string) []string {
	var lines []string
	for line := range strings.Lines(logs) {
		for _, refusal := range []string{"forbidden", "permission denied", "read-only file system"} {
			if strings.Contains(line, refusal) {
				lines = append(lines, strings.TrimSpace(line))
				break
			}
		}
	}
	return lines
}

// printPodLogs shows the logs of our processes, for a test that has failed.
func (s *scene) printPodLogs() {
	for _, process := range processNames {
		pods := s.podsOf(process)
		for i := range pods {
			logs, err := logsOf(s.background(), s.node.Kube, &pods[i])
			if err != nil {
				logs += err.Error()
			}
			s.Logf("--- %s:\n%s", s.stateOf(&pods[i]), logs)
		}
	}
}
