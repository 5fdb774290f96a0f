// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

var queueTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func minutesLater(minutes int) metav1.Time {
	return metav1.NewTime(queueTime.Add(time.Duration(minutes) * time.Minute))
}

// queueOf returns a queue that guarantees GPUs of all models together and accepts every namespace.
func queueOf(name, parent string, guaranteed int32) *v1.GPUQueue {
	queue := &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name}}
	queue.Spec = v1.GPUQueueSpec{
		Parent: parent, NamespaceSelector: &metav1.LabelSelector{}, Resources: []v1.GPUQueueResource{{GPU: v1.AnyGPU, Guaranteed: guaranteed}},
	}
	return queue
}

// waitingPod returns a Pod that waits for GPUs of any model.
func waitingPod(name, queue string, gpus int64) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{v1.LabelQueue: queue}, CreationTimestamp: minutesLater(0),
	}}
	amount := corev1.ResourceList{v1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amount, Limits: amount}}}
	pod.Spec.Priority = new(int32(0))
	return pod
}

// TestTheLedgerOfStatusesIsThatOfThePods compares what queues hold by their Pods with what it is by the statuses that
// the controller writes about the same Pods.
func TestTheLedgerOfStatusesIsThatOfThePods(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var objects []*v1.GPUQueue
		for i := range 6 {
			parent := ""
			if i > 0 && random.IntN(3) > 0 {
				parent = fmt.Sprint("q", random.IntN(i))
			}
			objects = append(objects, queueOf(fmt.Sprint("q", i), parent, 0))
		}
		tree := gpuqueue.NewTree(objects)
		view := gpuqueue.NewView(tree)
		for range 20 {
			model := []string{"", "h100", "a100"}[random.IntN(3)]
			view.Held.Add(fmt.Sprint("q", random.IntN(6)), model, queueing.Amount(random.IntN(300)))
		}
		report := gpuqueue.NewReport(view, nil, time.Hour, queueTime)
		for _, object := range objects {
			object.Status = report.Status(object)
		}
		got := NewQueues(objects, nil).ledger()
		for _, object := range objects {
			for _, model := range []string{queueing.AnyModel, "", "h100", "a100"} {
				if want, held := view.Held.Held(object.Name, model), got.Held(object.Name, model); held != want {
					t.Fatalf("seed %d: %s holds %s of %q by the statuses, and %s by the Pods", seed, object.Name, held, model, want)
				}
			}
		}
	}
}

func TestStatusesThatSomebodyHasWrittenAreNoNumbers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]queueing.Amount{"": 0, "x": 0, "-1": 0, "NaN": 0, "1e300": 0, "8": 800, "0.5": 50} {
		if got := amountOf(text); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}

func TestWhichQueueAPodIsIn(t *testing.T) {
	t.Parallel()
	vision, batch := queueOf("vision", "", 0), queueOf("batch", "", 0)
	vision.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "vision"}
	batch.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": "batch"}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "vision"}}}
	all := NewQueues([]*v1.GPUQueue{vision, batch}, []*corev1.Namespace{namespace})
	tests := []struct {
		name, label, want string
		queues            *Queues
		refused           bool
	}{
		{"the only one that accepts the namespace", "", "vision", all, false},
		{"one that does not accept it", "batch", "batch", all, true},
		{"one that is missing, in a cluster without queues", "vision", "vision", NewQueues(nil, nil), true},
		{"none, in a cluster without queues", "", "", NewQueues(nil, nil), false},
		{"the one that it names, if they are not known", "batch", "batch", UnknownQueues(), false},
		{"the one that it names, if its namespace is not known", "batch", "batch", NewQueues(all.Objects, nil), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := test.queues.Assign(waitingPod("a", test.label, 1))
			if got.Queue != test.want || (got.Problem != nil) != test.refused {
				t.Errorf("queue %q, problem %v", got.Queue, got.Problem)
			}
			want := test.want
			switch {
			case test.queues == nil:
				want = ""
			case test.refused:
				want = "vision" // that of its namespace
			}
			if got := test.queues.holder(waitingPod("a", test.label, 1)); got != want {
				t.Errorf("while it runs it counts for %q, want %q", got, want)
			}
		})
	}
}

func withEstimate(pod *corev1.Pod, text string) *corev1.Pod {
	pod.Annotations = map[string]string{v1.AnnotationStartEstimate: text}
	return pod
}

func estimateText(t *testing.T, position int32) string {
	t.Helper()
	text, err := json.Marshal(&v1.StartEstimate{Earliest: minutesLater(1), Likely: minutesLater(2), Latest: minutesLater(3), Position: position})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEstimatedStart(t *testing.T) {
	t.Parallel()
	task := &v1.GPUTask{Status: v1.GPUTaskStatus{Phase: v1.PhasePending, EstimatedStart: &v1.StartEstimate{Position: 9}}}
	bound := withEstimate(waitingPod("bound", "", 1), estimateText(t, 1))
	bound.Spec.NodeName = "n"
	done := task.DeepCopy()
	done.Status.Phase = v1.PhaseSucceeded
	tests := []struct {
		name string
		task *v1.GPUTask
		pods []*corev1.Pod
		want int32 // its position; 0 for none
	}{
		{"that of the Pod that is served first", task, []*corev1.Pod{withEstimate(waitingPod("a", "", 1), estimateText(t, 4)), withEstimate(waitingPod("b", "", 1), estimateText(t, 3))}, 3},
		{"that of the status, if no Pod has one", task, []*corev1.Pod{waitingPod("a", "", 1)}, 9},
		{"not that of a Pod that has a node", task, []*corev1.Pod{bound}, 9},
		{"not one that can't be read", nil, []*corev1.Pod{withEstimate(waitingPod("a", "", 1), "soon")}, 0},
		{"none for a task that has ended", done, nil, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := int32(0)
			if estimate := EstimatedStart(test.task, test.pods); estimate != nil {
				got = estimate.Position
			}
			if got != test.want {
				t.Errorf("position %d, want %d", got, test.want)
			}
		})
	}
}

func TestTheEndOfATaskIsTheFirstOfItsLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*v1.GPUTask)
		want   int // in minutes; 0 for unknown
	}{
		{"nothing bounds it", func(*v1.GPUTask) {}, 0},
		{"a deadline counts from the first start", func(task *v1.GPUTask) { task.Spec.ActiveDeadlineSeconds = new(int64(3600)) }, 60},
		{"a maximum runtime counts while it runs", func(task *v1.GPUTask) { task.Spec.MaxRuntimeSeconds = new(int64(3600)) }, 70},
		{"what it ran before counts", func(task *v1.GPUTask) {
			task.Spec.MaxRuntimeSeconds, task.Status.PastRuntimeSeconds = new(int64(3600)), 1800
		}, 40},
		{"so does the maximum of its queue", func(task *v1.GPUTask) { task.Status.QueueRuntime = &v1.QueueRuntime{MaxSeconds: 3600, Queue: "vision"} }, 70},
		{"the less of both", func(task *v1.GPUTask) {
			task.Spec.MaxRuntimeSeconds, task.Status.QueueRuntime = new(int64(3600)), &v1.QueueRuntime{MaxSeconds: 1800, Queue: "vision"}
		}, 40},
		{"the first one counts", func(task *v1.GPUTask) {
			task.Spec.MaxRuntimeSeconds, task.Spec.ActiveDeadlineSeconds = new(int64(3600)), new(int64(1800))
		}, 30},
		{"a task that has ended holds nothing", func(task *v1.GPUTask) {
			task.Spec.ActiveDeadlineSeconds, task.Status.Phase = new(int64(3600)), v1.PhaseFailed
		}, 0},
		{"one that has not started has no end", func(task *v1.GPUTask) {
			task.Spec.ActiveDeadlineSeconds, task.Status.StartTime = new(int64(3600)), nil
		}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			task := &v1.GPUTask{Status: v1.GPUTaskStatus{Phase: v1.PhaseRunning, StartTime: new(minutesLater(0)), RunningSince: new(minutesLater(10))}}
			test.change(task)
			at, known := endOfTask(task)
			if known != (test.want > 0) || known && at.Sub(queueTime) != time.Duration(test.want)*time.Minute {
				t.Errorf("it ends at %v, known %t, want after %d minutes", at, known, test.want)
			}
		})
	}
}

func TestWhatIsInLine(t *testing.T) {
	t.Parallel()
	labelled := func(name, gang string, least int, node string) *corev1.Pod {
		pod := waitingPod(name, "", 1)
		pod.Labels = map[string]string{v1.LabelPodGroup: gang, v1.LabelMinAvailable: fmt.Sprint(least)}
		pod.Spec.NodeName = node
		return pod
	}
	gated := waitingPod("gated", "", 1)
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}}
	leaving := waitingPod("leaving", "", 1)
	leaving.DeletionTimestamp = new(minutesLater(0))
	ended := waitingPod("ended", "", 1)
	ended.Status.Phase = corev1.PodSucceeded
	task := func(phase v1.GPUTaskPhase, change ...func(*v1.GPUTask)) clusterview.Task {
		one := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: "task", Namespace: "default"}, Status: v1.GPUTaskStatus{Phase: phase}}
		for _, apply := range change {
			apply(one)
		}
		bound := waitingPod("task-0", "", 1)
		bound.Spec.NodeName = "n"
		return clusterview.Task{GPUTask: one, Pods: []*corev1.Pod{bound, waitingPod("task-1", "", 2)}}
	}
	tests := []struct {
		name    string
		objects LineObjects
		want    string
	}{
		{"Pods without GPUs, with a gate, that leave or have ended are not", LineObjects{Pods: []*corev1.Pod{waitingPod("cpu", "", 0), gated, leaving, ended}}, ""},
		{"a gang below its minimum waits", LineObjects{Pods: []*corev1.Pod{labelled("a", "g", 2, ""), labelled("b", "g", 2, "")}}, "Gang g waits for 2"},
		{"a gang that has its minimum runs", LineObjects{Pods: []*corev1.Pod{labelled("a", "g", 1, "n"), labelled("b", "g", 1, "")}}, "Gang g holds 1"},
		{"a gang that has lost a member does both", LineObjects{Pods: []*corev1.Pod{labelled("a", "g", 2, "n"), labelled("b", "g", 2, "")}}, "Gang g waits for 1, Gang g holds 1"},
		{"a pending task does both", LineObjects{Tasks: []clusterview.Task{task(v1.PhasePending)}}, "GPUTask task waits for 2, GPUTask task holds 1"},
		{"a running task does not wait for its optional members", LineObjects{Tasks: []clusterview.Task{task(v1.PhaseRunning)}}, "GPUTask task holds 1"},
		{"an array does both", LineObjects{Tasks: []clusterview.Task{task(v1.PhaseRunning, func(one *v1.GPUTask) { one.Spec.Completions = new(int32(9)) })}}, "GPUTask task waits for 2, GPUTask task holds 1"},
		{"a suspended task does not wait", LineObjects{Tasks: []clusterview.Task{task(v1.PhasePending, func(one *v1.GPUTask) { one.Spec.Suspend = new(true) })}}, "GPUTask task holds 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.objects.Now = queueTime
			line := NewLine(&test.objects)
			var got []string
			for _, entry := range line.Waiting {
				got = append(got, fmt.Sprintf("%s %s waits for %s", entry.Kind, entry.Name, entry.GPUs))
			}
			for _, entry := range line.Running {
				got = append(got, fmt.Sprintf("%s %s holds %s", entry.Kind, entry.Name, entry.GPUs))
			}
			if joined := strings.Join(got, ", "); joined != test.want {
				t.Errorf("%q, want %q", joined, test.want)
			}
		})
	}
}

func TestWhatHasNoPositionYetFillsTheGaps(t *testing.T) {
	t.Parallel()
	queues := NewQueues([]*v1.GPUQueue{queueOf("vision", "", 0)}, []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default"}}})
	pods := []*corev1.Pod{
		waitingPod("a", "vision", 1),
		withEstimate(waitingPod("b", "vision", 1), estimateText(t, 3)),
		withEstimate(waitingPod("c", "vision", 1), estimateText(t, 1)),
		waitingPod("d", "vision", 1),
	}
	for complete, want := range map[bool]string{true: "c:1 a:2 b:3 d:4", false: "c:1 a:0 b:3 d:0"} {
		var got []string
		for _, entry := range NewLine(&LineObjects{Queues: queues, Pods: pods, Complete: complete, Now: queueTime}).Waiting {
			got = append(got, fmt.Sprintf("%s:%d", entry.Name, entry.Position))
		}
		if joined := strings.Join(got, " "); joined != want {
			t.Errorf("complete %t: %q, want %q", complete, joined, want)
		}
	}
}

func TestRivals(t *testing.T) {
	t.Parallel()
	used := func(queue *v1.GPUQueue, held, waiting, factor string) *v1.GPUQueue {
		queue.Status.Waiting = 1
		if waiting == "0" {
			queue.Status.Waiting = 0
		}
		queue.Status.Resources = []v1.GPUQueueUsed{{GPU: v1.AnyGPU, Used: held, Borrowed: "0", Waiting: waiting}}
		if factor != "" {
			queue.Status.Usage = &v1.GPUQueueTime{Factor: factor, GPUHours: "1"}
		}
		return queue
	}
	limited := func(queue *v1.GPUQueue, limit int32) *v1.GPUQueue {
		queue.Spec.Resources[0].Limit = &limit
		return queue
	}
	tests := []struct {
		name   string
		queues []*v1.GPUQueue
		line   Line
		want   []string
	}{
		{"who is below the guarantee goes first, whatever it has used", []*v1.GPUQueue{used(queueOf("own", "", 0), "0", "1", "0.10"), used(queueOf("owed", "", 8), "4", "1", "9.00")}, Line{},
			[]string{"Before: served before own: owed holds 4 of 8 guaranteed GPUs, and guarantees go first"}},
		{"the queue itself may be owed", []*v1.GPUQueue{used(queueOf("own", "", 8), "0", "1", ""), used(queueOf("other", "", 0), "4", "1", "0.10")}, Line{},
			[]string{"After: served after own: own holds 0 of 8 guaranteed GPUs, and guarantees go first; GPUs that it has borrowed may be reclaimed for own"}},
		{"a next task that is too large for the guarantee does not go first", []*v1.GPUQueue{used(queueOf("own", "", 0), "0", "1", "1.00"), used(queueOf("owed", "", 8), "4", "8", "2.00")},
			Line{Waiting: []LineEntry{{Queue: "owed", asked: queueing.Amounts{queueing.AnyModel: 8 * queueing.GPU}}}},
			[]string{"After: served after own: it has used 2.00 times its share, own 1.00 times"}},
		{"a child is served by what its parent is guaranteed", []*v1.GPUQueue{used(queueOf("own", "", 0), "0", "1", "1.00"), used(queueOf("parent", "", 8), "4", "0", ""), used(queueOf("child", "parent", 0), "4", "1", "2.00")}, Line{},
			[]string{"Before: served before own: child is a child of parent, which holds 4 of 8 guaranteed GPUs, and guarantees go first"}},
		{"a child gets back what its sibling has borrowed", []*v1.GPUQueue{used(queueOf("parent", "", 16), "16", "0", ""), used(queueOf("own", "parent", 8), "16", "1", "2.00"), used(queueOf("owed", "parent", 4), "0", "1", "0.50")}, Line{},
			[]string{"Before: served before own: owed holds 0 of 4 guaranteed GPUs, and guarantees go first; GPUs that own has borrowed may be reclaimed for it"}},
		{"and the other way round", []*v1.GPUQueue{used(queueOf("parent", "", 16), "16", "0", ""), used(queueOf("own", "parent", 8), "0", "1", "0.50"), used(queueOf("rich", "parent", 4), "16", "1", "2.00")}, Line{},
			[]string{"After: served after own: own holds 0 of 8 guaranteed GPUs, and guarantees go first; GPUs that it has borrowed may be reclaimed for own"}},
		{"of different parents, only these are compared", []*v1.GPUQueue{used(queueOf("parent", "", 8), "4", "0", ""), used(queueOf("own", "parent", 4), "0", "1", "2.00"), used(queueOf("other", "", 8), "4", "1", "0.50")}, Line{},
			[]string{"Before: served before own: both are below their guarantees, and it has used 0.50 times its share, own 2.00 times"}},
		{"what others have borrowed does not help if the parent's limit is in the way",
			[]*v1.GPUQueue{limited(used(queueOf("parent", "", 4), "4", "0", ""), 4), used(queueOf("own", "parent", 4), "0", "1", ""), used(queueOf("other", "", 0), "4", "1", ""), used(queueOf("sibling", "parent", 0), "4", "1", "")}, Line{},
			[]string{
				"Equal: equal to own: no GPU time was used yet, so the task with the longest wait for its run time goes first",
				"After: served after own: own holds 0 of 4 guaranteed GPUs, and guarantees go first; GPUs that it has borrowed may be reclaimed for own",
			}},
		{"then who has used less of its share", []*v1.GPUQueue{used(queueOf("own", "", 0), "0", "1", "1.00"), used(queueOf("rich", "", 0), "0", "1", "1.50"), used(queueOf("poor", "", 0), "0", "1", "0.50")}, Line{},
			[]string{"Before: served before own: it has used 0.50 times its share, own 1.00 times", "After: served after own: it has used 1.50 times its share, own 1.00 times"}},
		{"who has used as much is equal", []*v1.GPUQueue{used(queueOf("own", "", 0), "0", "1", ""), used(queueOf("other", "", 0), "0", "1", "1.00")}, Line{},
			[]string{"Equal: equal to own: both have used 1.00 times their share, so the task with the longest wait for its run time goes first"}},
		{"who does not wait is no rival", []*v1.GPUQueue{used(queueOf("own", "", 0), "0", "1", ""), used(queueOf("other", "", 0), "0", "0", "0.10")}, Line{}, nil},
		{"nor are the parts of a queue that has no tasks of its own", []*v1.GPUQueue{used(queueOf("own", "", 0), "0", "1", ""), used(queueOf("part", "own", 0), "0", "1", "0.10")}, Line{}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, rival := range NewQueues(test.queues, nil).Report("own", &test.line).Rivals {
				got = append(got, fmt.Sprintf("%s: %s", rival.Turn, rival.Why))
			}
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}
