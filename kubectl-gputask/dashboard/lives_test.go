// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func podOf(task string, number int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", task, number), OwnerReferences: []metav1.OwnerReference{{
		APIVersion: v1.GroupVersion.String(), Kind: v1.TaskKind().Kind, Name: task, UID: types.UID(task), Controller: new(true),
	}}}}
}

func TestLivesAreRememberedWithinBounds(t *testing.T) {
	t.Parallel()
	l := newLives()
	l.add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "of nobody"}}, metav1.Now())
	for i := range maxLives + 5 {
		l.add(podOf("busy", i), metav1.Now())
	}
	if known := l.of("busy"); len(known) != maxLives || known[len(known)-1].Pod != fmt.Sprintf("busy-%d", maxLives+4) {
		t.Errorf("%d lives are known, the last one of %s", len(known), known[len(known)-1].Pod)
	}
	for i := range maxTasks {
		l.add(podOf(fmt.Sprintf("task%d", i), 0), metav1.Now())
	}
	if len(l.of("busy")) != 0 || len(l.of(types.UID(fmt.Sprintf("task%d", maxTasks-1)))) != 1 || len(l.byTask) != maxTasks {
		t.Errorf("%d tasks are known, %d lives of the first one", len(l.byTask), len(l.of("busy")))
	}
}
