// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpufit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/kueue"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// node returns a node with 8 GPUs in a leaf.
func node(name, leaf string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelLeaf: leaf, v1.LabelGPUModel: "h100", "pool": "on-demand"}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				v1.ResourceGPU: resource.MustParse("8"), corev1.ResourceCPU: resource.MustParse("64"),
				corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110"),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// cluster returns four nodes in two leaves, with Pods.
func cluster(pods ...*corev1.Pod) Cluster {
	return Cluster{
		Nodes: []*corev1.Node{node("node-1", "leaf-1"), node("node-2", "leaf-1"), node("node-3", "leaf-2"), node("node-4", "leaf-2")},
		Pods:  pods, Levels: snapshot.DefaultLevels(), Now: now,
	}
}

// pod returns a Pod with a number of GPUs of a node.
func pod(name, on string, gpus int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Name: "main", Resources: gpuRequest(gpus)}}},
	}
}

func gpuRequest(gpus int) corev1.ResourceRequirements {
	list := corev1.ResourceList{v1.ResourceGPU: resource.MustParse(fmt.Sprint(gpus))}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

// job returns the Workload of a Job: Pods with a number of GPUs each.
func job(name string, count int32, gpus int, change ...func(*kueue.Workload)) *kueue.Workload {
	w := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: kueue.WorkloadSpec{PodSets: []kueue.PodSet{{
			Name: "main", Count: count,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: gpuRequest(gpus)}}}},
		}}},
	}
	for _, apply := range change {
		apply(w)
	}
	w.Status.Admission = &kueue.WorkloadAdmission{}
	for _, set := range w.Spec.PodSets {
		w.Status.Admission.PodSetAssignments = append(w.Status.Admission.PodSetAssignments,
			kueue.PodSetAssignment{Name: set.Name, Count: &set.Count, Flavors: map[corev1.ResourceName]string{v1.ResourceGPU: "any"}})
	}
	return w
}

// gang returns the Workload of a GPUTask.
func gang(t *testing.T, replicas int32, gpus string, change ...func(*v1.GPUTask)) *kueue.Workload {
	t.Helper()
	task := &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: "gang", Namespace: "default", UID: "uid"},
		Spec:       v1.GPUTaskSpec{GPUAmount: gpus, Replicas: &replicas},
	}
	for _, apply := range change {
		apply(task)
	}
	w, err := kueue.NewWorkload(task, gputask.PodDefaults{}, kueue.Priority{})
	if err != nil {
		t.Fatal(err)
	}
	return job(w.Name, 0, 0, func(job *kueue.Workload) { job.Spec = w.Spec })
}

func within(level string, mode v1.TopologyMode) func(*v1.GPUTask) {
	return func(t *v1.GPUTask) { t.Spec.Topology = &v1.Topology{Level: level, Mode: mode} }
}

func flavors(name string) *kueue.ResourceFlavor {
	flavor := &kueue.ResourceFlavor{}
	switch name {
	case "any":
	case "spot":
		flavor.Spec.NodeLabels = map[string]string{"pool": "spot"}
	default:
		return nil
	}
	return flavor
}

func TestWhetherAWorkloadFits(t *testing.T) {
	t.Parallel()
	cordoned := cluster()
	cordoned.Nodes[0].Spec.Unschedulable = true
	notReady := cluster()
	notReady.Nodes[3].Status.Conditions[0].Status = corev1.ConditionFalse
	for name, c := range map[string]struct {
		cluster  Cluster
		workload *kueue.Workload
		want     bool
		message  string
	}{
		"all Pods find a place":                                   {cluster(), job("job", 4, 8), true, "1 on node-1, 1 on node-2, 1 on node-3, 1 on node-4"},
		"one Pod too many":                                        {cluster(), job("job", 5, 8), false, "it would not fit even if nothing else ran"},
		"enough GPUs, but scattered":                              {cluster(pod("a", "node-1", 1), pod("b", "node-2", 1)), job("job", 3, 8), false, "too few free GPUs"},
		"the Pods of a gang, all of them":                         {cluster(), gang(t, 5, "8", func(t *v1.GPUTask) { t.Spec.MinAvailable = new(int32(2)) }), false, ""},
		"a gang in one leaf":                                      {cluster(), gang(t, 2, "8", within("leaf", v1.TopologyRequired)), true, "1 on node-1, 1 on node-2"},
		"a gang that is too large for a leaf":                     {cluster(), gang(t, 3, "8", within("leaf", v1.TopologyRequired)), false, ""},
		"a gang that would like one leaf":                         {cluster(), gang(t, 3, "8", within("leaf", v1.TopologyPreferred)), true, ""},
		"a level that does not exist":                             {cluster(), gang(t, 2, "8", within("row", v1.TopologyRequired)), false, `there is no topology level "row"`},
		"more Pods than anybody counts":                           {cluster(), job("job", 2_000_000_000, 0), false, "its Pods can't be placed: they are more than 10000"},
		"another GPU model":                                       {cluster(), gang(t, 1, "1", func(t *v1.GPUTask) { t.Spec.GPU = "a100" }), false, "no node has a100"},
		"a node is cordoned":                                      {cordoned, job("job", 4, 8), false, ""},
		"a node is not ready":                                     {notReady, job("job", 4, 8), false, ""},
		"a Workload of the size that was admitted":                {cluster(), reduced(job("job", 5, 8), 4), true, ""},
		"a Workload of the size that was admitted, which is none": {cluster(), reduced(job("job", 5, 8), 0), true, "it has no Pods"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Answers(c.cluster, flavors, nil, []*kueue.Workload{c.workload})[0]
			if got.Fits != c.want || !strings.Contains(got.Message, c.message) {
				t.Errorf("got %+v, want %t: %s", got, c.want, c.message)
			}
		})
	}
}

// reduced changes the number of Pods that were admitted.
func reduced(w *kueue.Workload, count int32) *kueue.Workload {
	w.Status.Admission.PodSetAssignments[0].Count = &count
	return w
}

func withFlavor(w *kueue.Workload, flavor string) *kueue.Workload {
	w.Status.Admission.PodSetAssignments[0].Flavors[v1.ResourceGPU] = flavor
	return w
}

func TestTheFlavorDecidesOnTheNodes(t *testing.T) {
	t.Parallel()
	c := cluster()
	c.Nodes[2].Labels["pool"] = "spot"
	for flavor, want := range map[string]string{
		"spot": "there is a place for all of its Pods now: 1 on node-3",
		"gone": `its Pods can't be placed: there is no ResourceFlavor "gone", which Workload job was admitted with`,
	} {
		got := Answers(c, flavors, nil, []*kueue.Workload{withFlavor(job("job", 1, 8), flavor)})[0]
		if got.Message != want {
			t.Errorf("got %q, want %q", got.Message, want)
		}
	}
	if got := Answers(c, flavors, nil, []*kueue.Workload{withFlavor(job("job", 2, 8), "spot")})[0]; got.Fits {
		t.Errorf("two Pods fit on one node: %+v", got)
	}
}

func TestTwoWorkloadsDoNotGetTheSamePlace(t *testing.T) {
	t.Parallel()
	answers := Answers(cluster(), flavors, nil, []*kueue.Workload{job("a", 3, 8), job("b", 2, 8), job("c", 1, 8)})
	var got []bool
	for _, one := range answers {
		got = append(got, one.Fits)
	}
	if diff := cmp.Diff([]bool{true, false, true}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestThePlacesOfPodsThatAreToArriveAreKept(t *testing.T) {
	t.Parallel()
	admitted := job("admitted", 3, 8)
	here := func(n int) *corev1.Pod {
		p := pod(fmt.Sprintf("here-%d", n), fmt.Sprintf("node-%d", n), 8)
		p.Annotations, p.Labels = map[string]string{kueue.AnnotationWorkload: "admitted"}, map[string]string{kueue.LabelPodSet: "main"}
		return p
	}
	for arrived := range 4 {
		var pods []*corev1.Pod
		for n := range arrived {
			pods = append(pods, here(n+1))
		}
		answers := Answers(cluster(pods...), flavors, []*kueue.Workload{admitted}, []*kueue.Workload{job("a", 1, 8), job("b", 1, 8)})
		if !answers[0].Fits || answers[1].Fits {
			t.Errorf("%d of 3 Pods have arrived: %+v", arrived, answers)
		}
	}
}

func TestTheNodeSelectorOfARequiredTopology(t *testing.T) {
	t.Parallel()
	c := cluster(pod("a", "node-1", 1))
	for i := range c.Nodes {
		c.Nodes[i].Labels["topology.kubernetes.io/zone"] = "zone-a"
	}
	for mode, want := range map[v1.TopologyMode]map[string]string{
		v1.TopologyRequired:  {v1.LabelLeaf: "leaf-2", "topology.kubernetes.io/zone": "zone-a"},
		v1.TopologyPreferred: nil,
	} {
		got := Answers(c, flavors, nil, []*kueue.Workload{gang(t, 2, "8", within("leaf", mode))})[0]
		if diff := cmp.Diff(want, got.NodeSelector); diff != "" || !got.Fits {
			t.Errorf("%s (-want +got):\n%s%s", mode, diff, got.Message)
		}
	}
}

func TestReservedPlacesAreTaken(t *testing.T) {
	t.Parallel()
	text, err := reservation.Format([]reservation.Reservation{{Plan: "plan", Pod: "default/moving", Kind: reservation.Move, Cards: 8, Until: now.Add(time.Minute)}})
	if err != nil {
		t.Fatal(err)
	}
	c := cluster()
	c.Nodes[1].Annotations = map[string]string{reservation.Annotation: text}
	if got := Answers(c, flavors, nil, []*kueue.Workload{job("job", 4, 8)})[0]; got.Fits {
		t.Errorf("it got a reserved place: %s", got.Message)
	}
	c.Now = now.Add(time.Hour)
	if got := Answers(c, flavors, nil, []*kueue.Workload{job("job", 4, 8)})[0]; !got.Fits {
		t.Errorf("the reservation has expired: %s", got.Message)
	}
	c.Now, c.Pods = now, []*corev1.Pod{pod("moving", "node-2", 8)}
	if got := Answers(c, flavors, nil, []*kueue.Workload{job("job", 3, 8)})[0]; !got.Fits {
		t.Errorf("the place counts twice: %s", got.Message)
	}
}

func TestAMessageNamesAFewNodes(t *testing.T) {
	t.Parallel()
	c := Cluster{Levels: snapshot.DefaultLevels(), Now: now}
	for n := range 20 {
		c.Nodes = append(c.Nodes, node(fmt.Sprintf("node-%02d", n), "leaf"))
	}
	got := Answers(c, flavors, nil, []*kueue.Workload{job("job", 20, 8)})[0].Message
	if !strings.Contains(got, "and more on 12 other nodes") || strings.Contains(got, "node-08") {
		t.Error(got)
	}
}
