// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// InvariantStarts says that a Pod that has not started within the time that its task allows gives its GPUs back. That
// it says meanwhile what it waits for is InvariantWaits.
const InvariantStarts = "what does not start gives its GPUs back"

// starts follows since when Pods have had nodes without having started.
type starts struct {
	pods map[types.UID]*starting
}

// starting is a Pod that has a node and has not started, and the calm time since when.
type starting struct {
	pod   *corev1.Pod
	since time.Duration
}

func newStarts() *starts { return &starts{pods: map[types.UID]*starting{}} }

func (v *starts) take(w *world, s *step) {
	if s.pod != nil {
		v.follow(w, s)
	}
	for _, one := range v.pods {
		v.look(w, one)
	}
}

func (v *starts) follow(w *world, s *step) {
	known := v.pods[s.pod.UID]
	if s.gone || s.pod.DeletionTimestamp != nil || s.pod.Spec.NodeName == "" || s.pod.Status.Phase != corev1.PodPending {
		delete(v.pods, s.pod.UID)
		return
	}
	if known == nil {
		v.pods[s.pod.UID] = &starting{pod: s.pod, since: w.calm}
	}
}

func (v *starts) look(w *world, one *starting) {
	uid, owned := taskOf(one.pod)
	task := w.tasks[uid]
	if !owned || task == nil || task.Spec.StartTimeoutSeconds == nil || isFuzzed(task) {
		return
	}
	limit := time.Duration(*task.Spec.StartTimeoutSeconds) * time.Second
	if took := w.calm - one.since; took > limit+w.config.GiveBack {
		w.report(InvariantStarts, nameOf(one.pod), "the Pod has had node %s for %v without starting; startTimeoutSeconds of its task is %d",
			one.pod.Spec.NodeName, took.Round(time.Second), *task.Spec.StartTimeoutSeconds)
	}
}
