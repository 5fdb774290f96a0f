// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// ruled is a cluster of one node with four GPUs, which the command line must judge by the
// same rules as the controller and the scheduler.
type ruled struct {
	*testing.T
	model
}

func newRuled(t *testing.T) *ruled {
	t.Helper()
	r := &ruled{T: t}
	r.nodes, r.world = 1, clusterview.Objects{Now: testTime, Nodes: []*corev1.Node{r.node(0)}}
	return r
}

// add adds a task whose Pods request GPUs. Each Pod runs on the given cards, or waits if
// it is given none.
func (r *ruled) add(name string, gpus int, priority int32, cards ...[]int) []*corev1.Pod {
	r.Helper()
	created := metav1.NewTime(testTime.Add(-time.Hour))
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), CreationTimestamp: created},
		Spec:       v1.GPUTaskSpec{GPUAmount: fmt.Sprint(gpus), Replicas: new(int32(len(cards)))},
		Status:     v1.GPUTaskStatus{Phase: v1.PhasePending},
	}
	var pods []*corev1.Pod
	for i, its := range cards {
		pod, err := gputask.NewPod(task, i, 0, gputask.PodDefaults{Image: "any"})
		if err != nil {
			r.Fatal(err)
		}
		pod.UID, pod.CreationTimestamp, pod.Spec.Priority = types.UID(fmt.Sprintf("pod %s %d", name, i)), created, new(priority)
		if len(its) > 0 {
			task.Status.Phase = v1.PhaseRunning
			pod.Annotations = map[string]string{inventory.AssignmentAnnotation: r.assignment(its)}
			pod.Spec.NodeName, pod.Status = "n0", corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &created}
			r.world.Pods = append(r.world.Pods, pod)
		}
		pods = append(pods, pod)
	}
	r.world.Tasks = append(r.world.Tasks, clusterview.Task{GPUTask: task, Pods: pods})
	return pods
}

func (r *ruled) assignment(cards []int) string {
	r.Helper()
	given := inventory.Assignment{}
	for _, index := range cards {
		given.Add(v1.ContainerName, string(v1.ResourceGPU), uuidOf(0, index))
	}
	text, err := given.String()
	if err != nil {
		r.Fatal(err)
	}
	return text
}

func (r *ruled) explain(name string) *analysis.Explanation {
	r.Helper()
	explanation, found := analysis.NewView(&r.world, nil).Explain("default", name)
	if !found {
		r.Fatalf("there is no task %s", name)
	}
	return explanation
}

func (r *ruled) outlook(name string) *analysis.Outlook {
	r.Helper()
	outlook := r.explain(name).Outlook
	if outlook == nil {
		r.Fatalf("task %s does not wait for room", name)
	}
	return outlook
}

func TestAFailedDependencyThatIsIgnoredIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRuled(t)
	r.add("failed", 1, 0)
	r.add("runs", 1, 0)
	r.add("after", 1, 0)
	r.world.Tasks[0].Status.Phase, r.world.Tasks[1].Status.Phase = v1.PhaseFailed, v1.PhaseRunning
	r.world.Tasks[2].Spec.DependsOn = []v1.Dependency{{Name: "failed", OnFailure: v1.DependencyIgnore}, {Name: "runs"}}
	want := []string{"task runs, which is Running, to be Succeeded"}
	if diff := cmp.Diff(want, r.explain("after").WaitsFor); diff != "" {
		t.Errorf("waits for (-want +got):\n%s", diff)
	}
}

func TestAPlaceIsKeptForAPodThatMovesWithinItsNode(t *testing.T) {
	t.Parallel()
	r := newRuled(t)
	r.add("moves", 2, 0, []int{0, 1})
	r.add("wants", 2, 0, nil)
	text, err := reservation.Format([]reservation.Reservation{{
		Plan: "p", Pod: "default/moves", Kind: reservation.Move, GPUs: []string{uuidOf(0, 2), uuidOf(0, 3)}, Until: testTime.Add(time.Hour),
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.world.Nodes[0].Annotations[reservation.Annotation] = text
	if got := r.outlook("wants").Verdict; got == analysis.Now {
		t.Errorf("verdict %s although the free cards are kept for others", got)
	}
}

func TestSparePodsOfAGangArePreempted(t *testing.T) {
	t.Parallel()
	r := newRuled(t)
	pods := r.add("elastic", 1, 0, []int{0}, []int{1}, []int{2}, []int{3})
	for i, pod := range pods {
		pod.Labels[v1.LabelMinAvailable] = "2"
		if i < 2 {
			pod.Spec.Priority = new(int32(20)) // it must not leave, and so not the gang as a whole
		}
	}
	r.add("wants", 2, 10, nil)
	if got := r.outlook("wants"); got.Verdict != analysis.AfterPreemption {
		t.Errorf("verdict %s, want %s of the two Pods above the minimum", got.Verdict, analysis.AfterPreemption)
	}
}

func TestPodsThatLeaveAreNoVictims(t *testing.T) {
	t.Parallel()
	r := newRuled(t)
	leaving := r.add("leaving", 2, 30, []int{0, 1})
	gone := metav1.NewTime(testTime.Add(time.Minute))
	leaving[0].DeletionTimestamp = &gone
	r.add("low", 2, 0, []int{2, 3})
	r.add("two", 2, 10, nil)
	got := r.outlook("two")
	if got.Verdict != analysis.WhenOthersEnd || got.At == nil || !got.At.Equal(&gone) || len(got.Victims) > 0 {
		t.Errorf("for two GPUs: verdict %s, at %v, victims %v; want %s, at %v, no victims", got.Verdict, got.At, got.Victims, analysis.WhenOthersEnd, gone)
	}
	r.world.Tasks = r.world.Tasks[:2]
	r.add("four", 4, 10, nil)
	got = r.outlook("four")
	if diff := cmp.Diff([]string{"default/low"}, got.Victims); got.Verdict != analysis.AfterPreemption || diff != "" {
		t.Errorf("for four GPUs: verdict %s, victims (-want +got):\n%s", got.Verdict, diff)
	}
}

func TestANodeThatHasSaidNothingIsClosed(t *testing.T) {
	t.Parallel()
	r := newRuled(t)
	r.world.Nodes[0].Status.Conditions = nil
	r.add("wants", 2, 0, nil)
	if got := r.outlook("wants").Verdict; got == analysis.Now {
		t.Errorf("verdict %s on a node that is not ready", got)
	}
}

// It says nothing about their health.
func TestGPUsThatTheKubeletDoesNotOfferAreNotUnhealthy(t *testing.T) {
	t.Parallel()
	r := newRuled(t)
	r.world.Nodes[0].Status.Allocatable[v1.ResourceGPU] = resource.MustParse("0")
	r.add("wants", 2, 0, nil)
	models := analysis.NewView(&r.world, nil).Top(nil).Models
	if len(models) != 1 || models[0].Closed != cardsOfNode || models[0].Unhealthy > 0 {
		t.Errorf("by model %+v, want %d closed", models, cardsOfNode)
	}
	free := r.outlook("wants").Free
	if free == nil || free.Closed != 1 || free.Unhealthy > 0 {
		t.Errorf("free for the task: %+v, want a closed node", free)
	}
}
