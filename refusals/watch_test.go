// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package refusals

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestRefusedTasksTryAtOnceWhenTheCauseChanges(t *testing.T) {
	t.Parallel()
	quota := func(hard, used string) *corev1.ResourceQuota {
		const gpus = corev1.ResourceName("requests.falldio.com/gpu")
		return &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "gpus", Namespace: "default"},
			Status: corev1.ResourceQuotaStatus{
				Hard: corev1.ResourceList{gpus: resource.MustParse(hard)}, Used: corev1.ResourceList{gpus: resource.MustParse(used)},
			},
		}
	}
	elsewhere := quota("200", "100")
	elsewhere.Namespace = "other"
	exceeded := apierrors.NewForbidden(pods, "task", errors.New("exceeded quota: gpus, requested: requests.falldio.com/gpu=1, used: requests.falldio.com/gpu=100, limited: requests.falldio.com/gpu=100"))
	noClass := apierrors.NewForbidden(pods, "task", errors.New("no PriorityClass with name urgent was found"))
	tooLarge := apierrors.NewForbidden(pods, "task", errors.New("maximum cpu usage per Container is 1"))
	webhook := apierrors.NewInternalError(errors.New("admission webhook denied the request"))
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "limits", Namespace: "default"}}
	class := func(name string) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	tests := map[string]struct {
		refuse error
		change func(*Tasks)
		want   bool
	}{
		"the quota is raised":               {exceeded, func(t *Tasks) { t.quotaChanged(quota("101", "100"), false) }, true},
		"some of the quota is given back":   {exceeded, func(t *Tasks) { t.quotaChanged(quota("100", "99"), false) }, true},
		"the quota is deleted":              {exceeded, func(t *Tasks) { t.quotaChanged(quota("100", "100"), true) }, true},
		"the quota is still exhausted":      {exceeded, func(t *Tasks) { t.quotaChanged(quota("100", "100"), false) }, false},
		"the quota of another namespace":    {exceeded, func(t *Tasks) { t.quotaChanged(elsewhere, false) }, false},
		"the PriorityClass is created":      {noClass, func(t *Tasks) { t.priorityClassChanged(class("urgent"), false) }, true},
		"another PriorityClass is created":  {noClass, func(t *Tasks) { t.priorityClassChanged(class("low"), false) }, false},
		"a LimitRange changes":              {tooLarge, func(t *Tasks) { t.limitRangeChanged(limits, false) }, true},
		"an admission policy changes":       {tooLarge, func(t *Tasks) { t.policiesChanged("") }, true},
		"a webhook changes":                 {webhook, func(t *Tasks) { t.policiesChanged("") }, true},
		"a label of the namespace changes":  {tooLarge, func(t *Tasks) { t.policiesChanged("default") }, true},
		"a label of another namespace":      {tooLarge, func(t *Tasks) { t.policiesChanged("other") }, false},
		"a policy, but it is the quota":     {exceeded, func(t *Tasks) { t.policiesChanged("") }, false},
		"a LimitRange, but it is the quota": {exceeded, func(t *Tasks) { t.limitRangeChanged(limits, false) }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWaiting()
			tasks := make([]*v1.GPUTask, 20)
			for i := range tasks {
				tasks[i] = newTask(fmt.Sprint(i), 1)
				w.Refused(tasks[i], nil, OfPod(test.refuse, &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: "urgent"}}))
			}
			for range 10 { // refusals, so that the next attempt is not due for a while
				w.clock.SetTime(w.clock.Now().Add(lastRetry))
				for _, task := range tasks {
					if w.delay(keyOf(task)) <= 0 {
						w.Refused(task, nil, OfPod(test.refuse, &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: "urgent"}}))
					}
				}
			}
			test.change(w.Tasks)
			if test.want {
				w.clock.SetTime(w.clock.Now().Add(policyLag))
			}
			tried := 0
			for range 10 {
				for _, task := range tasks {
					if w.Of(task) != nil && w.delay(keyOf(task)) <= 0 {
						tried++
						w.Accepted(keyOf(task))
					}
				}
			}
			if all := tried == len(tasks); all != test.want || tried > 0 != test.want {
				t.Errorf("%d of %d tasks have tried", tried, len(tasks))
			}
		})
	}
}

func TestATaskOfNoPriorityClassIsToldWhichThereAre(t *testing.T) {
	t.Parallel()
	w, known := newWaiting(), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	w.classes = schedulinglisters.NewPriorityClassLister(known)
	for _, name := range []string{"low", "system-node-critical", "high"} {
		if err := known.Add(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	task := newTask("0", 1)
	refused := apierrors.NewForbidden(pods, "0", errors.New("no PriorityClass with name urgent was found"))
	w.Refused(task, nil, OfPod(refused, &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: "urgent"}}))
	want := `there is no PriorityClass "urgent": create it, or recreate the task with another spec.priority; there are high and low`
	if got := w.Of(task); got == nil || got.Message != want {
		t.Errorf("refusal %+v, want %q", got, want)
	}
}
