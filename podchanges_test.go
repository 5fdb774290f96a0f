// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestAPodThatAPolicyChangesIsRejectedIfTheControllerReliesOnIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   string // empty if the Pod stays
	}{
		"a label of others":       {func(p *corev1.Pod) { p.Labels[v1.LabelApp] = "billing" }, ""},
		"a label that is added":   {func(p *corev1.Pod) { p.Labels["falldio.com/team"] = "vision" }, ""},
		"the scheduler":           {func(p *corev1.Pod) { p.Spec.SchedulerName = "gpu-scheduler-spreading" }, ""},
		"the task":                {func(p *corev1.Pod) { delete(p.Labels, v1.LabelTask) }, `the label falldio.com/gputask ("train", now "")`},
		"the index":               {func(p *corev1.Pod) { p.Labels[v1.LabelIndex] = "one" }, `the label falldio.com/index ("0", now "one")`},
		"the owner":               {func(p *corev1.Pod) { p.OwnerReferences = nil }, "the owner reference"},
		"when it starts again":    {func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }, "restartPolicy (Never, now Always)"},
		"what its containers are": {func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "proxy"}) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			task := f.store(newTask("train", 1))
			f.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				pod, ok := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
				if ok {
					tc.change(pod)
				}
				return false, nil, nil
			})
			err := f.sync(task)
			if (err == nil) != (tc.want == "") {
				t.Errorf("the sync ends with %v", err)
			}
			if got := slices.Contains(f.writes(), "delete pods"); got != (tc.want != "") {
				t.Errorf("the Pod is deleted: %v", got)
			}
			if tc.want == "" {
				return
			}
			f.observe()
			f.mustSync(task)
			condition := meta.FindStatusCondition(f.stored(task).Status.Conditions, v1.ConditionPodsCreated)
			if condition == nil || condition.Reason != reasonPodChanged ||
				!strings.Contains(condition.Message, "an admission policy or a webhook changes "+tc.want+" of the Pod: exempt the Pods of GPUTasks from it") {
				t.Errorf("condition PodsCreated: %+v", condition)
			}
			if names := f.podNames(); len(names) > 0 {
				t.Errorf("Pods %v are left", names)
			}
		})
	}
}
