// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	taskfake "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/fake"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

func newPod(name, owner, node string, phase corev1.PodPhase) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1.TaskKind().GroupVersion().String(), Kind: "GPUTask", Name: owner, UID: types.UID("uid-" + owner), Controller: new(true)}}
	}
	pod.Spec.NodeName, pod.Status.Phase = node, phase
	return pod
}

func TestObserveJoinsTasksAndTheirPods(t *testing.T) {
	t.Parallel()
	task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: "train", Namespace: "default", UID: "uid-train"}}
	foreign := newPod("train-x", "train", "n", corev1.PodRunning)
	foreign.OwnerReferences[0].UID = "uid-of-an-earlier-train"
	forged := newPod("train-y", "train", "n", corev1.PodRunning)
	forged.Namespace = "attacker"
	clients := &Clients{
		Kube: kubefake.NewClientset(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
			newPod("train-0", "train", "n", corev1.PodRunning), newPod("train-1", "train", "", corev1.PodPending), newPod("train-2", "train", "n", corev1.PodSucceeded),
			newPod("other", "", "n", corev1.PodRunning), foreign, forged,
		),
		Tasks: taskfake.NewClientset(),
	}
	if err := clients.Tasks.(*taskfake.Clientset).Tracker().Add(task); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	got, err := Observe(t.Context(), clients, snapshot.DefaultLevels(), now)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Tasks) != 1 || len(got.Tasks[0].Pods) != 3 {
		t.Errorf("tasks: %+v, want one with 3 Pods", got.Tasks)
	}
	if len(got.Pods) != 4 { // train-0, other, the one of an earlier task and the forged one
		t.Errorf("%d Pods hold a place, want 4", len(got.Pods))
	}
	if !got.Now.Equal(now) || len(got.Nodes) != 1 {
		t.Errorf("now %v, %d nodes", got.Now, len(got.Nodes))
	}
}

// Which list fails first differs from call to call.
func TestWhoMayListNothingReadsTheSameEachTime(t *testing.T) {
	t.Parallel()
	kube := kubefake.NewClientset()
	kube.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetResource().Resource == "nodes" {
			time.Sleep(10 * time.Millisecond)
		}
		return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", nil)
	})
	_, err := Observe(t.Context(), &Clients{Kube: kube, Tasks: taskfake.NewClientset()}, snapshot.DefaultLevels(), time.Now())
	if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), "listing nodes: ") || !strings.Contains(err.Error(), "ask for the ClusterRole gputasks-cluster-view") {
		t.Errorf("error %v", err)
	}
}

func TestTheErrorNamesAllThatTheClusterRoleAllows(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../artifacts/rbac/users.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, role, _ := strings.Cut(string(text), "name: gputasks-cluster-view\n")
	role, _, _ = strings.Cut(role, "\n---")
	said := listError("nodes", apierrors.NewForbidden(schema.GroupResource{}, "", nil)).Error()
	for line := range strings.SplitSeq(role, "\n") {
		_, resources, found := strings.Cut(line, "resources: [")
		if !found {
			continue
		}
		resources, _, _ = strings.Cut(resources, "]")
		for resource := range strings.SplitSeq(resources, ", ") {
			if !strings.Contains(said, resource) {
				t.Errorf("it does not name %s: %s", resource, said)
			}
		}
	}
}

func TestPriorities(t *testing.T) {
	t.Parallel()
	never := corev1.PreemptNever
	high := schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 100, PreemptionPolicy: &never}
	usual := schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 7, GlobalDefault: true}
	tests := []struct {
		name, class string
		classes     []schedulingv1.PriorityClass
		want        int32
		never       bool
		fails       string
	}{
		{name: "of a PriorityClass, with its policy of preemption", class: "high", classes: []schedulingv1.PriorityClass{high, usual}, want: 100, never: true},
		{name: "the cluster's default", classes: []schedulingv1.PriorityClass{high, usual}, want: 7},
		{name: "none in a cluster without a default", classes: []schedulingv1.PriorityClass{high}},
		{name: "one that there is not", class: "low", classes: []schedulingv1.PriorityClass{high}, fails: `spec.priority: there is no PriorityClass "low"; there is high`},
		{name: "one that is misspelt", class: "hihg", classes: []schedulingv1.PriorityClass{high, usual}, fails: `spec.priority: there is no PriorityClass "hihg"; there are high and usual (did you mean high?)`},
		{name: "one in a cluster without any", class: "low", fails: `spec.priority: there is no PriorityClass "low": there is none in this cluster`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{Spec: corev1.PodSpec{PriorityClassName: test.class}}
			err := newPriorities(test.classes).Admit(pod)
			if test.fails != "" {
				if err == nil || err.Error() != test.fails {
					t.Errorf("error %v, want %s", err, test.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := *pod.Spec.Priority; got != test.want || (pod.Spec.PreemptionPolicy != nil) != test.never {
				t.Errorf("priority %d, policy %v", got, pod.Spec.PreemptionPolicy)
			}
		})
	}
}

func TestControlledByIsInTheOrderOfIndexes(t *testing.T) {
	t.Parallel()
	task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: "train", UID: "uid-train"}}
	var pods []*corev1.Pod
	for _, name := range []string{"train-10", "train-9", "train-0"} {
		pods = append(pods, newPod(name, "train", "n", corev1.PodRunning))
	}
	pods = append(pods, newPod("train-1", "other", "n", corev1.PodRunning))
	var got []string
	for _, pod := range ControlledBy(pods, task) {
		got = append(got, pod.Name)
	}
	if want := []string{"train-0", "train-9", "train-10"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
