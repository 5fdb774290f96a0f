// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package refusals

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestAPodInTheWayIsExplainedByItsOwner(t *testing.T) {
	t.Parallel()
	task := newTask("train", 1)
	former, other := newTask("train", 1), newTask("other", 1)
	former.UID, other.UID = "former", "other"
	pod := func(owner *v1.GPUTask, change ...func(*corev1.Pod)) *corev1.Pod {
		pod := newPod(t, owner)
		pod.Name = "train"
		for _, apply := range change {
			apply(pod)
		}
		return pod
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"its own Pod, which the cache does not show yet": {pod(task), ""},
		"its own Pod without the label": {
			pod(task, func(p *corev1.Pod) { delete(p.Labels, v1.LabelTask) }),
			`Pod "train" has lost its label falldio.com/gputask=train: restore the label or delete the Pod`,
		},
		"a Pod of a former task of this name": {pod(former), `waiting for the Pod "train" of a previous task to be deleted`},
		"a Pod that is on its way out": {
			pod(other, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: testTime} }),
			`waiting for the Pod "train" of a previous task to be deleted`,
		},
		"a Pod of another task": {
			pod(other), `a Pod named "train" exists already and belongs to GPUTask "other": recreate this task under another name`,
		},
	} {
		got := ""
		if refusal := OfName(task, "Pod", tc.pod); refusal != nil {
			got = refusal.Message
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
