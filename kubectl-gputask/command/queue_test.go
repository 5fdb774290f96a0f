// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

// newQueue returns a queue for the namespaces of a team; "" for none.
func newQueue(name, parent, team string, guaranteed, limit int32, change ...func(*v1.GPUQueue)) *v1.GPUQueue {
	queue := &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-queue-" + name), CreationTimestamp: ago(48 * time.Hour)}}
	queue.Spec = v1.GPUQueueSpec{Parent: parent, Weight: new(int32(1)), Resources: []v1.GPUQueueResource{{GPU: v1.AnyGPU, Guaranteed: guaranteed}}}
	if limit > 0 {
		queue.Spec.Resources[0].Limit = &limit
	}
	if team != "" {
		queue.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
	queue.Status.Conditions = []metav1.Condition{{
		Type: v1.ConditionQueueReady, Status: metav1.ConditionTrue, Reason: v1.ReasonQueueAccepted, Message: "the queue works as specified", LastTransitionTime: ago(48 * time.Hour),
	}}
	for _, apply := range change {
		apply(queue)
	}
	return queue
}

// status sets what a queue holds and waits for, and its fair-share factor.
func status(running, waiting int32, factor string, resources ...v1.GPUQueueUsed) func(*v1.GPUQueue) {
	return func(queue *v1.GPUQueue) {
		queue.Status.Running, queue.Status.Waiting, queue.Status.Resources = running, waiting, resources
		queue.Status.Usage = &v1.GPUQueueTime{GPUSeconds: 360_000, OwnGPUSeconds: 360_000, HalfLifeSeconds: 7 * 86_400, AsOf: ago(30 * time.Second), Factor: factor, GPUHours: "1234.500"}
	}
}

func newNamespace(name, team string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
}

// inQueue puts a task into a queue.
func inQueue(queue string) func(*v1.GPUTask) {
	return func(task *v1.GPUTask) { task.Spec.Queue = queue }
}

// expects adds a waiting task whose first Pod has an estimate of its start.
func (f *fixture) expects(task *v1.GPUTask, priority int32, estimate *v1.StartEstimate) {
	f.t.Helper()
	f.waits(task, priority)
	f.estimate(podOf(task, 0, 0).Name, estimate)
}

// estimate writes an estimate on a Pod, with the scheduler's words about it.
func (f *fixture) estimate(pod string, estimate *v1.StartEstimate) {
	f.t.Helper()
	text, err := json.Marshal(estimate)
	if err != nil {
		f.t.Fatal(err)
	}
	f.change(f.kube.Tracker(), corev1.SchemeGroupVersion.WithResource("pods"), pod, func(object runtime.Object) {
		changed := object.(*corev1.Pod)
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[v1.AnnotationStartEstimate] = string(text)
		changed.Annotations[v1.AnnotationWaitingReason] = waitingreason.Encode(&v1.WaitingReason{
			Reason: v1.WaitsForGPUs, Message: "4 nodes have too few free GPUs", Time: metav1.NewTime(testTime),
			Nodes: []v1.WaitingNodes{{Count: 4, Cause: "InsufficientGPUs", Message: "have too few free GPUs"}},
		})
		changed.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/4 nodes are available: 4 nodes have too few free GPUs. preemption: its preemption policy is Never",
		}}
	})
}

// between returns an estimate by minutes from now.
func between(position int32, earliest, likely, latest int, behind string) *v1.StartEstimate {
	in := func(minutes int) metav1.Time {
		return metav1.NewTime(testTime.Add(time.Duration(minutes) * time.Minute))
	}
	return &v1.StartEstimate{Earliest: in(earliest), Likely: in(likely), Latest: in(latest), Position: position, Behind: behind, Reserved: behind != ""}
}

// foreignPod returns a Pod of another controller that asks for whole GPUs.
func foreignPod(namespace, name string, gpus int64, labels map[string]string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID("uid-pod-" + name), Labels: labels, CreationTimestamp: ago(20 * time.Minute)}}
	amount := corev1.ResourceList{v1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amount, Limits: amount}}}
	pod.Spec.Priority, pod.Status.Phase = new(int32(0)), corev1.PodPending
	return pod
}

// queued returns a cluster with queues in which tasks and Pods of other controllers wait.
func queued(t *testing.T) *fixture {
	t.Helper()
	f := fragmented(t)
	all := func(used, borrowed, waiting string) v1.GPUQueueUsed {
		return v1.GPUQueueUsed{GPU: v1.AnyGPU, Used: used, Borrowed: borrowed, Waiting: waiting}
	}
	f.add(
		newNamespace("default", "vision"), newNamespace("lang", "language"), newNamespace("misc", ""), newNamespace("jobs", "batch"),
		newQueue("research", "", "", 24, 32, status(2, 5, "0.90", all("8", "0", "38"))),
		newQueue("vision", "research", "vision", 4, 16, status(4, 4, "1.20", all("8", "4", "30")), func(queue *v1.GPUQueue) {
			queue.Spec.Weight, queue.Spec.MaxRuntimeSeconds, queue.Spec.DefaultRuntimeSeconds = new(int32(3)), new(int64(86_400)), new(int64(14_400))
			queue.Spec.Priorities = []string{"high", ""}
			queue.Spec.Reclaim = &v1.GPUQueueReclaim{Policy: v1.ReclaimAny, MinRuntimeSeconds: new(int32(600))}
		}),
		newQueue("language", "research", "language", 4, 0, status(0, 1, "0.40", all("0", "0", "8"))),
		newQueue("batch", "", "batch", 0, 0, status(0, 1, "0.10", all("0", "0", "4"))),
	)
	f.expects(newTask("train", "h100", "8", inQueue("vision"), func(task *v1.GPUTask) { task.Spec.Priority = "high" }), 100, between(1, 130, 140, 160, "small-0"))
	f.expects(newTask("sweep", "h100", "2", inQueue("vision"), replicas(4)), 0, between(3, 180, 200, 24*60, ""))
	f.waits(newTask("unknown", "h100", "6", inQueue("vision")), 0)
	f.add(newTask("refused", "h100", "1", inQueue("language"), func(task *v1.GPUTask) {
		task.Status.Conditions = []metav1.Condition{{Type: v1.ConditionPodsCreated, Status: metav1.ConditionFalse, Reason: "NamespaceNotAccepted", Message: "queue language does not accept namespace default: its namespaceSelector is team=language"}}
	}))
	f.add(foreignPod("default", "mpi-0", 4, map[string]string{v1.LabelPodGroup: "mpi", v1.LabelMinAvailable: "2"}))
	f.add(foreignPod("default", "mpi-1", 4, map[string]string{v1.LabelPodGroup: "mpi", v1.LabelMinAvailable: "2"}))
	f.estimate("mpi-1", between(2, 130, 130, 130, ""))
	f.add(foreignPod("lang", "notebook", 8, nil))
	f.add(foreignPod("jobs", "nightly", 4, nil))
	f.add(foreignPod("misc", "alone", 1, nil))
	f.add(foreignPod("misc", "without-gpus", 0, nil))
	ends := newTask("bounded", "h100", "1", inQueue("vision"), func(task *v1.GPUTask) { task.Spec.MaxRuntimeSeconds = new(int64(7200)) })
	f.runs(ends, "h100-0", 7)
	f.change(f.tasks.Tracker(), v1.TaskKind().GroupVersion().WithResource("gputasks"), "bounded", func(object runtime.Object) {
		object.(*v1.GPUTask).Status.RunningSince = new(ago(30 * time.Minute))
	})
	return f
}

// gpu-scheduler writes positions on Pods one after the other, so that two may have the same for a moment.
func TestNoTwoInAQueueHaveTheSamePosition(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	f.add(newQueue("vision", "", "", 8, 0), newQueue("language", "", "", 8, 0))
	for name, queue := range map[string]string{"a": "vision", "b": "vision", "c": "vision", "d": "language"} {
		f.expects(newTask(name, "h100", "8", inQueue(queue)), 0, between(1, 130, 140, 160, "small-0"))
	}
	if err := f.run("queue", "-A", "-o", "jsonpath={range.waiting[*]}{.queue}={.position} {end}"); err != nil {
		t.Fatal(err)
	}
	if got := f.out.String(); got != "language=1 vision=1 vision=2 vision=3 " {
		t.Errorf("positions %s", got)
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"what waits in the namespace", "queue", "queue"},
		{"in all namespaces, with all columns, and what runs", "queue-all", "queues -A -o wide --running"},
		{"in one queue", "queue-named", "queue gpuqueue/language -A --no-headers"},
		{"by name", "queue-name", "queue -o name"},
		{"as YAML", "queue-yaml", "queue vision -o yaml --running"},
		{"in colours", "queue-colours", "queue vision language --color=always"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			queued(t).golden(test.golden, strings.Fields(test.args)...)
		})
	}
}

func TestQueueDescribe(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, golden, args string }{
		{"a queue that others are served before", "queue-describe", "queue describe vision"},
		{"a queue that is below its guarantee", "queue-describe-owed", "queue describe language"},
		{"a queue that only has children", "queue-describe-parent", "queue show research"},
		{"as JSON", "queue-describe-json", "queue describe batch -o json"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			queued(t).golden(test.golden, strings.Fields(test.args)...)
		})
	}
}

// refuse has lists of a kind fail.
func (f *fixture) refuse(kind string, err error, unless func(clienttesting.Action) bool) {
	refuse := func(action clienttesting.Action) (bool, runtime.Object, error) {
		if unless != nil && unless(action) {
			return false, nil, nil
		}
		return true, nil, err
	}
	f.tasks.PrependReactor("list", kind, refuse)
	f.kube.PrependReactor("list", kind, refuse)
}

func TestQueueWithoutQueues(t *testing.T) {
	t.Parallel()
	queues := schema.GroupResource{Group: v1.GroupName, Resource: "gpuqueues"}
	tests := []struct {
		name, golden string
		prepare      func(*fixture)
	}{
		{"of a cluster without the kind", "queue-absent", func(f *fixture) { f.refuse("gpuqueues", apierrors.NewNotFound(queues, ""), nil) }},
		{"of a user who may not see them", "queue-forbidden", func(f *fixture) { f.refuse("gpuqueues", apierrors.NewForbidden(queues, "", nil), nil) }},
		{"of a cluster without any", "queue-none", func(*fixture) {}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := fragmented(t)
			test.prepare(f)
			f.waits(newTask("low", "h100", "8", inQueue("vision")), 0)
			f.waits(newTask("high", "h100", "8"), 100)
			f.golden(test.golden, "queue", "-A")
		})
	}
}

func TestQueueOfAnEmptyNamespace(t *testing.T) {
	t.Parallel()
	queued(t).golden("queue-empty", "queue", "batch", "-n", "nowhere")
}

func TestAUserOfOneNamespaceSeesTheQueueOfThatNamespace(t *testing.T) {
	t.Parallel()
	f := queued(t)
	ofAll := func(action clienttesting.Action) bool { return action.GetNamespace() != "" }
	f.refuse("pods", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil), ofAll)
	f.refuse("namespaces", apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "", nil), nil)
	f.golden("queue-describe-own", "queue", "describe", "vision")
}

func TestQueuesThatAreNotThere(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"queue nobody":                     "there is no GPUQueue \"nobody\": `kubectl get gpuqueues` lists them",
		"queue describe nobody":            "there is no GPUQueue \"nobody\": `kubectl get gpuqueues` lists them",
		"queue pod/x":                      "pod/x: is not the name of a GPUQueue",
		"queue describe":                   "describe needs a name: kubectl gputask queue describe NAME... [flags]",
		"queue -o custom-columns=A:.a":     "",
		"queue describe vision -o columns": "",
	}
	for args, want := range tests {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			err := queued(t).run(strings.Fields(args)...)
			if err == nil || want != "" && err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

func TestQueueDescribeSaysWhatTheClusterDoesNotHave(t *testing.T) {
	t.Parallel()
	f := fragmented(t)
	f.add(newNamespace("default", "vision"), newQueue("vision", "", "vision", 4, 0, status(0, 0, "1.00"), func(queue *v1.GPUQueue) {
		queue.Status.Conditions = append(queue.Status.Conditions, metav1.Condition{
			Type: v1.ConditionQueueEffective, Status: metav1.ConditionFalse, Reason: v1.ReasonUnknownModel, Message: "no node has h1000 (did you mean h100?)", LastTransitionTime: ago(time.Hour),
		})
	}))
	if err := f.run("queue", "describe", "vision"); err != nil {
		t.Fatal(err)
	}
	if got := f.out.String(); !strings.Contains(got, "Problem:     no node has h1000 (did you mean h100?)\n") || !strings.Contains(got, "Effective") {
		t.Errorf("it says\n%s", got)
	}
}
