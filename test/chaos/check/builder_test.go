// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// builder writes a history by hand. Half a second passes before each entry.
type builder struct {
	entries []history.Entry
	now     time.Duration
}

// begin is when hand-written histories begin.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (b *builder) add(entry history.Entry) *builder {
	b.now += 500 * time.Millisecond
	entry.Elapsed, entry.At = b.now, begin.Add(b.now)
	if entry.Object != nil {
		entry.Object.Revision = int64(len(b.entries) + 1)
	}
	b.entries = append(b.entries, entry)
	return b
}

func (b *builder) wait(d time.Duration) *builder {
	b.now += d
	return b
}

func (b *builder) pod(pods ...*corev1.Pod) *builder {
	for _, pod := range pods {
		b.add(history.Entry{Object: &history.Object{Kind: history.KindPod, Pod: pod.DeepCopy()}})
	}
	return b
}

func (b *builder) podGone(pod *corev1.Pod) *builder {
	return b.add(history.Entry{Object: &history.Object{Kind: history.KindPod, Pod: pod.DeepCopy(), Deleted: true}})
}

func (b *builder) task(task *v1.GPUTask) *builder {
	return b.add(history.Entry{Object: &history.Object{Kind: history.KindTask, Task: task.DeepCopy()}})
}

func (b *builder) taskGone(task *v1.GPUTask) *builder {
	return b.add(history.Entry{Object: &history.Object{Kind: history.KindTask, Task: task.DeepCopy(), Deleted: true}})
}

func (b *builder) node(node *corev1.Node) *builder {
	return b.add(history.Entry{Object: &history.Object{Kind: history.KindNode, Node: node.DeepCopy()}})
}

func (b *builder) queue(queue *v1.GPUQueue) *builder {
	return b.add(history.Entry{Object: &history.Object{Kind: history.KindQueue, Queue: queue.DeepCopy()}})
}

func (b *builder) queueGone(queue *v1.GPUQueue) *builder {
	return b.add(history.Entry{Object: &history.Object{Kind: history.KindQueue, Queue: queue.DeepCopy(), Deleted: true}})
}

func (b *builder) plan(plan *v1.MovePlan) *builder {
	return b.add(history.Entry{Object: &history.Object{Kind: history.KindPlan, Plan: plan.DeepCopy()}})
}

func (b *builder) planGone(plan *v1.MovePlan) *builder {
	return b.add(history.Entry{Object: &history.Object{Kind: history.KindPlan, Plan: plan.DeepCopy(), Deleted: true}})
}

func (b *builder) namespace(namespace *corev1.Namespace) *builder {
	return b.add(history.Entry{Object: &history.Object{Kind: history.KindNamespace, Namespace: namespace.DeepCopy()}})
}

func (b *builder) request(user, verb, of, namespace, name string) *builder {
	return b.add(history.Entry{Request: &history.Request{
		User: user, Verb: verb, Resource: of, Namespace: namespace, Name: name, Code: 200, Time: begin.Add(b.now + 500*time.Millisecond),
	}})
}

// intent records what the user of task t wants.
func (b *builder) intent(verb string) *builder {
	return b.add(history.Entry{Intent: &history.Intent{Verb: verb, Kind: history.KindTask, Namespace: "ns", Name: "t"}})
}

// fault injects a fault that lasts for a moment.
func (b *builder) fault(kind, target string) *builder {
	number := len(b.entries)
	b.add(history.Entry{Fault: &history.Fault{Number: number, Kind: kind, Target: target}})
	return b.add(history.Entry{Fault: &history.Fault{Number: number, Kind: kind, Target: target, Ends: true}})
}

func (b *builder) exit(process, reason string) *builder {
	return b.add(history.Entry{Exit: &history.Exit{Process: process, Reason: reason}})
}

func (b *builder) mark(marks ...history.Mark) *builder {
	for _, mark := range marks {
		b.add(history.Entry{Mark: mark})
	}
	return b
}

// mustFind checks that the history has exactly one violation, of an invariant, with a text.
func (b *builder) mustFind(t *testing.T, invariant, text string) {
	t.Helper()
	found := All(Default(), b.entries)
	if len(found) != 1 || found[0].Invariant != invariant || !strings.Contains(found[0].String(), text) {
		t.Errorf("found %s, want one violation of %q with %q", describeAll(found), invariant, text)
	}
}

func (b *builder) mustFindNothing(t *testing.T) {
	t.Helper()
	if found := All(Default(), b.entries); len(found) > 0 {
		t.Errorf("found %s", describeAll(found))
	}
}

// cases are histories, by what happens in them, and what must be found in each: "" for nothing.
type cases map[string]struct {
	history *builder
	want    string
}

func (c cases) check(t *testing.T, invariant string) {
	t.Helper()
	for name, test := range c {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.want == "" {
				test.history.mustFindNothing(t)
				return
			}
			test.history.mustFind(t, invariant, test.want)
		})
	}
}

func describeAll(violations []Violation) string {
	if len(violations) == 0 {
		return "nothing"
	}
	texts := make([]string, len(violations))
	for i := range violations {
		texts[i] = violations[i].String()
	}
	return strings.Join(texts, "\n")
}

// newPod returns a running Pod of a task, or of nobody if task is nil, with GPUs of node n.
func newPod(name string, task *v1.GPUTask, cards ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{}, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if task != nil {
		isController := true
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "GPUTask", Name: task.Name, UID: task.UID, Controller: &isController}}
		pod.Labels[v1.LabelTask] = task.Name
		pod.Labels[v1.LabelAttempt] = "0"
	}
	if len(cards) > 0 {
		request(pod, v1.ResourceGPU, len(cards))
		assign(pod, v1.ResourceGPU, cards...)
	}
	return pod
}

func request(pod *corev1.Pod, name corev1.ResourceName, count int) {
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: *resource.NewQuantity(int64(count), resource.DecimalSI)}
}

func assign(pod *corev1.Pod, name corev1.ResourceName, cards ...string) {
	assignment := inventory.Assignment{}
	assignment.Add("c", string(name), cards...)
	text, err := assignment.String()
	if err != nil {
		text = err.Error() // the test then fails
	}
	pod.Annotations[inventory.AssignmentAnnotation] = text
}

// share returns a running Pod with a share of GPU A.
func share(name string, percent int) *corev1.Pod {
	pod := newPod(name, nil)
	request(pod, v1.ResourceGPUPercent, percent)
	assign(pod, v1.ResourceGPUPercent, "A")
	return pod
}

// member returns a running member of a gang of which so many start together.
func member(task *v1.GPUTask, index, least int) *corev1.Pod {
	pod := newPod(fmt.Sprintf("%s-%d", task.Name, index), task)
	pod.Labels[v1.LabelPodGroup], pod.Labels[v1.LabelMinAvailable] = task.Name, strconv.Itoa(least)
	return pod
}

func newTask(name string) *v1.GPUTask {
	return &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-task-" + name), Labels: map[string]string{}},
		Status:     v1.GPUTaskStatus{Phase: v1.PhaseRunning},
	}
}

func newNode(name string, cards ...string) *corev1.Node {
	list := inventory.Inventory{Version: inventory.Version}
	for i, card := range cards {
		list.GPUs = append(list.GPUs, inventory.GPU{Index: i, UUID: card, Health: inventory.Healthy})
	}
	text, err := list.String()
	if err != nil {
		text = err.Error() // the test then fails
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{inventory.Annotation: text}, Labels: map[string]string{}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// movePlan returns a plan that is being carried out and moves a Pod of a task to node m.
func movePlan(task *v1.GPUTask, pod *corev1.Pod) *v1.MovePlan {
	reference := v1.TaskReference{Namespace: task.Namespace, Name: task.Name, UID: task.UID}
	return &v1.MovePlan{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-of-p"},
		Spec:       v1.MovePlanSpec{Moves: []v1.Move{{Task: reference, Pod: pod.Name, PodUID: pod.UID, To: v1.MovePlace{Node: "m"}}}},
		Status:     v1.MovePlanStatus{Phase: v1.PlanExecuting},
	}
}

// with returns a changed copy of a Pod.
func with(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	changed := pod.DeepCopy()
	change(changed)
	return changed
}

func unbound(pod *corev1.Pod) { pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending }

func hasSucceeded(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }

func hasFailed(pod *corev1.Pod) { failedWith(pod, 1, "Error") }

// failedWith is the end of a Pod's container.
func failedWith(pod *corev1.Pod, code int32, reason string) {
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason},
	}}}
}

func refused(pod *corev1.Pod) { pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted" }

func rebooted(pod *corev1.Pod) { failedWith(pod, 255, "Unknown") }

func notFound(pod *corev1.Pod) { failedWith(pod, 137, "ContainerStatusUnknown") }

func deleting(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: begin} }

func evicted(pod *corev1.Pod) { disrupted(pod, "EvictionByEvictionAPI") }

func preempted(pod *corev1.Pod) { disrupted(pod, corev1.PodReasonPreemptionByScheduler) }

func disrupted(pod *corev1.Pod, reason string) {
	deleting(pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason}}
}

func another(uid types.UID) func(*corev1.Pod) { return func(pod *corev1.Pod) { pod.UID = uid } }

func taskWith(task *v1.GPUTask, change func(*v1.GPUTask)) *v1.GPUTask {
	changed := task.DeepCopy()
	change(changed)
	return changed
}
