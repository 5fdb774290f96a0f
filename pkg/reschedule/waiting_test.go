// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
)

func TestWaiting(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		build func(*cluster)
		// want are the tasks with how many Pods wait and how many are needed.
		want []string
	}{
		"a task without a node waits":               {func(c *cluster) { c.wait("a", "1", 1) }, []string{"a 1/1"}},
		"a task that runs does not":                 {func(c *cluster) { c.run("a", "1", "node") }, nil},
		"a gang needs all of its Pods":              {func(c *cluster) { c.wait("a", "1", 3) }, []string{"a 3/3"}},
		"a gang needs as many as start together":    {func(c *cluster) { minAvailable(c.wait("a", "1", 3), 2) }, []string{"a 3/2"}},
		"a gang that lost a Pod needs one":          {func(c *cluster) { c.place(c.wait("a", "1", 3), 0, 1) }, []string{"a 1/1"}},
		"a task that waits for another one is none": {func(c *cluster) { c.wait("a", "1", 1).Status.Phase = v1.PhaseWaiting }, nil},
		"a suspended task is none":                  {func(c *cluster) { c.wait("a", "1", 1).Spec.Suspend = new(true) }, nil},
		"a task that is being deleted is none":      {func(c *cluster) { c.wait("a", "1", 1).DeletionTimestamp = &metav1.Time{Time: now} }, nil},
		"a gated Pod does not wait for a node": {func(c *cluster) {
			c.wait("a", "1", 1).Pods[0].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "x"}}
		}, nil},
		"a Pod that others are preempted for has a node soon": {func(c *cluster) {
			c.wait("a", "1", 1).Pods[0].Status.NominatedNodeName = "node"
		}, nil},
		"a gang of several tasks is one": {func(c *cluster) {
			for _, name := range []string{"a", "b"} {
				pod := c.wait(name, "1", 1).Pods[0]
				pod.Labels[v1.LabelPodGroup], pod.Labels[v1.LabelMinAvailable] = "both", "2"
			}
		}, []string{"a 2/2"}},
		"a Pod that has a node by the newer of two caches does not": {func(c *cluster) {
			task := c.wait("a", "1", 1)
			newer := task.Pods[0].DeepCopy()
			c.bind(newer, "node", []int{0})
		}, nil},
		"priority comes before age": {func(c *cluster) {
			c.wait("a", "1", 1)
			c.wait("b", "1", 1).Pods[0].Spec.Priority = new(int32(1))
		}, []string{"b 1/1", "a 1/1"}},
		"the oldest is first": {func(c *cluster) {
			c.wait("a", "1", 1)
			c.wait("b", "1", 1).Pods[0].CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
		}, []string{"b 1/1", "a 1/1"}},
		"a gang that is not complete can't start": {func(c *cluster) {
			task := c.wait("a", "1", 3)
			task.Pods = task.Pods[:2]
		}, []string{"a: its gang has 2 of the 3 Pods that start together"}},
		"a level that there is not is an error": {func(c *cluster) {
			for _, pod := range c.wait("a", "1", 2).Pods {
				pod.Annotations = map[string]string{v1.AnnotationTopologyLevel: "row"}
			}
		}, []string{`a: there is no topology level "row"; the levels are zone`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.node("node", 8)
			tc.build(c)
			var got []string
			for _, w := range c.planner().Waiting() {
				if w.Err != nil {
					text, _, _ := strings.Cut(w.Err.Error(), ",")
					got = append(got, w.Task.Name+": "+text)
					continue
				}
				got = append(got, fmt.Sprintf("%s %d/%d", w.Task.Name, len(w.Pods), w.Gang.Roles[0].Min))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("waiting (-want +got):\n%s", diff)
			}
		})
	}
}

func minAvailable(task *clusterview.Task, number int32) {
	task.Spec.MinAvailable = new(number)
	for _, pod := range task.Pods {
		pod.Labels[v1.LabelMinAvailable] = fmt.Sprint(number)
	}
}

// place lets Pods of a task run on the first node.
func (c *cluster) place(task *clusterview.Task, indices ...int) {
	c.Helper()
	for _, i := range indices {
		c.bind(task.Pods[i], c.Nodes[0].Name, c.cards(c.Nodes[0].Name, task.Spec.GPUAmount, ""))
		task.Pods[i].Status.Phase = corev1.PodRunning
	}
}

func TestAGangThatMustStayTogetherIsCompletedWhereItIs(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("a", 2, inLeaf("one"))
	c.node("b", 2, inLeaf("two"))
	task := c.wait("pair", "2", 2)
	for _, pod := range task.Pods {
		pod.Annotations = map[string]string{v1.AnnotationTopologyLevel: "leaf", v1.AnnotationTopologyMode: v1.TopologyRequired}
	}
	c.place(task, 0)
	s := c.planner()
	waiting := s.Waiting()
	if len(waiting) != 1 || !strings.HasSuffix(waiting[0].Gang.Within, "/one") {
		t.Fatalf("got %+v", waiting)
	}
	if _, fits, err := s.Cluster.Plan(&waiting[0].Gang.Gang); fits || err != nil {
		t.Errorf("it fits in another leaf: %v", err)
	}
}

// The queue that has used the least has its turn first, and inside a queue counts what gpu-scheduler has published.
func TestTasksWaitInTheOrderOfTheQueues(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.node("one", 2)
	var queues []*v1.GPUQueue
	for _, name := range []string{"busy", "idle"} {
		queues = append(queues, &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.GPUQueueSpec{NamespaceSelector: &metav1.LabelSelector{}}})
	}
	add := func(name, queue string, priority int32, position int) {
		pod := c.wait(name, "2", 1).Pods[0]
		pod.Labels[v1.LabelQueue], pod.Spec.Priority = queue, &priority
		if position > 0 {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.AnnotationStartEstimate, fmt.Sprintf(
				`{"earliest":%[1]q,"likely":%[1]q,"latest":%[1]q,"queue":%[2]q,"position":%[3]d}`, now.UTC().Format(time.RFC3339), queue, position))
		}
	}
	add("busy-urgent", "busy", 9, 0)
	add("busy-usual", "busy", 0, 1)
	add("idle-usual", "idle", 0, 0)
	add("nowhere", "missing", 9, 0)
	c.Queues = gpuqueue.NewLimits(&gpuqueue.Cluster{
		Tree: gpuqueue.NewTree(queues), Factors: map[string]float64{"busy": 10, "idle": 0.1},
		Namespace: func(name string) *corev1.Namespace {
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		},
		Node: func(string) *corev1.Node { return nil },
	}, c.Pods)
	var got []string
	for _, w := range c.planner().Waiting() {
		got = append(got, w.Task.Name)
	}
	if diff := cmp.Diff([]string{"idle-usual", "busy-usual", "busy-urgent", "nowhere"}, got); diff != "" {
		t.Errorf("the order differs (-want +got):\n%s", diff)
	}
}

// Nobody moves for a task that its queue would not let start.
func TestNothingMovesForATaskBeyondTheLimitOfItsQueue(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int32]bool{2: false, 4: true} {
		c := newCluster(t)
		c.node("one", 2)
		c.node("two", 2)
		c.run("a", "1", "one")
		c.run("b", "1", "two")
		c.wait("big", "2", 1)
		queue := &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1.GPUQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{}, Resources: []v1.GPUQueueResource{{GPU: v1.AnyGPU, Limit: &limit}},
		}}
		c.Queues = gpuqueue.NewLimits(&gpuqueue.Cluster{
			Tree: gpuqueue.NewTree([]*v1.GPUQueue{queue}),
			Namespace: func(name string) *corev1.Namespace {
				return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			},
			Node: func(string) *corev1.Node { return nil },
		}, c.Pods)
		plan, report := Propose(&c.Objects, &c.options)
		if forTask := plan != nil && plan.Spec.For != nil; forTask != want {
			t.Errorf("with a limit of %d GPUs there is a plan for the task: %t, want %t; %+v", limit, forTask, want, report)
		}
	}
}
