// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// members is the choice of some Pods of a task, by their labels.
type members struct {
	index int32
	role  string
}

func (m *members) addTo(command *cobra.Command) {
	command.Flags().Int32Var(&m.index, "index", -1, "only the Pod with this index (within its role if --role is set); -1 means all Pods")
	command.Flags().StringVar(&m.role, "role", "", "only the Pods of this role")
	complete(command, "index", noCompletion)
	complete(command, "role", noCompletion)
}

func (m *members) validate() error {
	if m.index < -1 {
		return fmt.Errorf("--index=%d: must not be negative", m.index)
	}
	return nil
}

// matches reports whether a Pod is chosen.
func (m *members) matches(pod *corev1.Pod) bool {
	if m.role != "" && pod.Labels[v1.LabelRole] != m.role {
		return false
	}
	return m.index < 0 || pod.Labels[m.indexLabel()] == strconv.Itoa(int(m.index))
}

func (m *members) indexLabel() string {
	if m.role != "" {
		return v1.LabelRoleIndex
	}
	return v1.LabelIndex
}

// chosen returns the chosen ones of a task's Pods. It is an error if there are Pods, but none
// that is meant.
func (m *members) chosen(task *v1.GPUTask, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	list := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !m.matches(pod) })
	if len(list) > 0 || len(pods) == 0 {
		return list, nil
	}
	if m.role != "" && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Labels[v1.LabelRole] == m.role }) {
		return nil, fmt.Errorf("--role=%s: task %s has no Pods of this role; its roles are %s", m.role, task.Name, cmp.Or(strings.Join(labelsOf(pods, v1.LabelRole), ", "), "none"))
	}
	same := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return m.role != "" && pod.Labels[v1.LabelRole] != m.role })
	there := abbreviated(labelsOf(same, m.indexLabel()))
	if array := task.Spec.Completions; array != nil && m.index < *array {
		return nil, fmt.Errorf("--index=%d: this Pod of task %s does not exist yet, or no longer; there are Pods with the indexes %s", m.index, task.Name, there)
	}
	return nil, fmt.Errorf("--index=%d: task %s has Pods with the indexes %s", m.index, task.Name, there)
}

// labelsOf returns the values of a label in the order of the Pods, each once.
func labelsOf(pods []*corev1.Pod, label string) []string {
	var values []string
	for i := range pods {
		if value := pods[i].Labels[label]; value != "" && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// abbreviated shortens "0, 1, 2, 3, 4" to "0 to 4".
func abbreviated(indexes []string) string {
	const most = 3
	if len(indexes) > most {
		return indexes[0] + " to " + indexes[len(indexes)-1]
	}
	return strings.Join(indexes, ", ")
}
