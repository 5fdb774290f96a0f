// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/pkg/accounting"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestPartsAreThoseOfThePods(t *testing.T) {
	t.Parallel()
	objects := largeCluster(t, 2, 6)
	objects.Pods[0].Namespace = "vision"
	waiting := objects.Pods[5]
	waiting.Spec.NodeName, waiting.Status.Phase = "", corev1.PodPending
	objects.Tasks[5].Status.Phase = v1.PhasePending
	objects.Pods = objects.Pods[:5]
	queue := &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	objects.Pods[1].Labels[v1.LabelQueue] = "all"
	_, moment := Build(&Input{View: analysis.NewView(objects, nil), Queues: analysis.NewQueues([]*v1.GPUQueue{queue}, nil), Waiting: []*corev1.Pod{waiting}})
	want := Parts{
		ByQueue: []Part{{Allocated: 4, Waiting: 1}, {Name: "all", Allocated: 1}}, ByModel: []Part{{Name: "h100", Allocated: 5, Waiting: 1}},
		ByNamespace: []Part{{Name: "default", Allocated: 4, Waiting: 1}, {Name: "vision", Allocated: 1}},
	}
	if diff := cmp.Diff(want, moment.Parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	if all := moment.Parts.By(""); len(all) != 1 || all[0].Allocated != 5 {
		t.Errorf("all together are %+v", all)
	}
	if len(moment.Starts) != 0 {
		t.Errorf("tasks have started that don't say so: %+v", moment.Starts)
	}
}

func TestOnlyTheLargestPartsAreToldApart(t *testing.T) {
	t.Parallel()
	var parts []Part
	for i := range MaxParts + 3 {
		parts = append(parts, Part{Name: fmt.Sprint(i), Allocated: float64(i), Waiting: 1})
	}
	largest := Largest(parts)
	if len(largest) != MaxParts+1 || largest[0].Name != "32" || largest[MaxParts] != (Part{Name: accounting.Others, Allocated: 0 + 1 + 2, Waiting: 3}) {
		t.Errorf("the largest are %+v", largest)
	}
}

func TestWhenATaskFirstBegan(t *testing.T) {
	t.Parallel()
	began, later := at(60), at(600)
	for name, test := range map[string]struct {
		status v1.GPUTaskStatus
		want   *metav1.Time
	}{
		"it waits":                         {v1.GPUTaskStatus{StartTime: &began}, nil},
		"it runs":                          {v1.GPUTaskStatus{RunningSince: &began}, &began},
		"it runs again":                    {v1.GPUTaskStatus{RunningSince: &later, PastRuntimeSeconds: 30}, nil},
		"it has run once":                  {v1.GPUTaskStatus{CompletionTime: &later, PastRuntimeSeconds: 540}, &began},
		"it has run and was restarted":     {v1.GPUTaskStatus{CompletionTime: &later, PastRuntimeSeconds: 540, Restarts: 1}, nil},
		"it has run and was interrupted":   {v1.GPUTaskStatus{CompletionTime: &later, PastRuntimeSeconds: 540, LastInterruption: &v1.Interruption{}}, nil},
		"it has run and was suspended":     {v1.GPUTaskStatus{CompletionTime: &later, PastRuntimeSeconds: 540, Conditions: []metav1.Condition{{Type: v1.ConditionSuspended}}}, nil},
		"it has failed before it ever ran": {v1.GPUTaskStatus{CompletionTime: &later}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, known := firstStart(&v1.GPUTask{Status: test.status})
			if known != (test.want != nil) || known && !got.Equal(test.want.Time) {
				t.Errorf("it began at %v, known: %t", got, known)
			}
		})
	}
}

func TestStartsSayHowLongTheTaskCouldNotBegin(t *testing.T) {
	t.Parallel()
	objects := largeCluster(t, 1, 2)
	for i := range objects.Tasks {
		status := &objects.Tasks[i].Status
		status.RunningSince, status.Nodes = new(at(100)), []string{"node-0"}
	}
	objects.Tasks[1].Status.StartTime = new(at(70)) // it depended on another one before
	_, moment := Build(&Input{View: analysis.NewView(objects, nil)})
	var waits []time.Duration
	for _, start := range moment.Starts {
		waits = append(waits, start.Waited)
		if start.By(accounting.ByModel) != "h100" || start.By(accounting.ByNamespace) != "default" || start.By(accounting.ByQueue) != "" || start.By("") != "" {
			t.Errorf("the start is %+v", start)
		}
	}
	if diff := cmp.Diff([]time.Duration{100 * time.Second, 30 * time.Second}, waits); diff != "" {
		t.Errorf("the waiting times (-want +got):\n%s", diff)
	}
}
