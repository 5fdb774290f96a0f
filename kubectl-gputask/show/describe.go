// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/plural"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

// Description is a task with its Pods and Events.
type Description struct {
	Task *v1.GPUTask
	Pods []*corev1.Pod
	// Events are those of the task and of its Pods.
	Events []analysis.FoldedEvent
	// FailedPod is a Pod that has failed, and LastLines what it wrote last; empty if that is not known.
	FailedPod, LastLines string
	// Queue is the queue that its Pods are in, as far as it is known; empty for none.
	Queue string
}

// Describe writes all details of a task.
func Describe(p *Page, d *Description) {
	task := d.Task
	phase := Phase(task.Status.Phase)
	var f pairs
	f.add("Name", task.Name)
	f.add("Namespace", task.Namespace)
	f.add("Labels", orNone(mapText(task.Labels)))
	f.add("Phase", p.Paint(phase.Style, phase.Text))
	f.addIf("Message", p.message(task.Status.Message))
	f.add("Asks for", Request(task))
	f.add("Priority", orNone(task.Spec.Priority))
	f.addIf("Queue", queueText(task, d.Queue))
	f.addIf("Expected start", estimatedStart(p, task))
	f.addIf("Depends on", dependencies(task))
	f.add("Rescheduling", reschedulingText(p, task))
	f.add("Failures", failureText(task))
	f.addIf("Interrupted", interruptionText(p, task))
	f.add("Created", timeText(p, &task.CreationTimestamp))
	f.addIf("Started", timeText(p, task.Status.StartTime))
	f.addIf("Ended", timeText(p, task.Status.CompletionTime))
	if deadline := task.Spec.ActiveDeadlineSeconds; deadline != nil {
		f.add("Deadline", deadlineText(p, task, time.Duration(*deadline)*time.Second))
	}
	f.addIf("Runtime", maxRuntimeText(p, task))
	f.addIf("Succeeded Pods", task.Status.CompletedIndexes)
	f.write(p)
	describePods(p, d.Pods)
	describeConditions(p, task.Status.Conditions)
	describeEvents(p, d.Events)
	if d.LastLines != "" {
		p.Title("Last lines of the log of " + d.FailedPod)
		for line := range strings.Lines(d.LastLines) {
			p.Printf("  %s\n", strings.TrimRight(line, "\n"))
		}
	}
	if hint := hintFor(task); hint != "" {
		p.Printf("\n%s\n", hint)
	}
}

// hintFor returns the command that says or does more about a task in its phase.
func hintFor(task *v1.GPUTask) string {
	switch task.Status.Phase {
	case v1.PhasePending, v1.PhaseWaiting:
		return "Why:  kubectl gputask explain " + task.Name
	case v1.PhaseSuspended:
		return "Resume:  kubectl gputask resume " + task.Name
	case v1.PhaseFailed:
		return "Logs:  kubectl gputask logs " + task.Name
	default:
		return ""
	}
}

func mapText(values map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, key+"="+values[key])
	}
	return strings.Join(parts, ", ")
}

func dependencies(task *v1.GPUTask) string {
	var parts []string
	for _, dependency := range task.Spec.DependsOn {
		condition := cmp.Or(dependency.Condition, v1.DependencySucceeded)
		parts = append(parts, dependency.Name+" ("+string(condition)+")")
	}
	return strings.Join(parts, ", ")
}

func reschedulingText(p *Page, task *v1.GPUTask) string {
	text := string(v1.ReschedulingAllowed)
	if rules := task.Spec.Rescheduling; rules != nil {
		text = cmp.Or(string(rules.Policy), text)
		if rules.MinRuntimeSeconds != nil {
			text += fmt.Sprintf(", not in the first %s", span(time.Duration(*rules.MinRuntimeSeconds)*time.Second))
		}
		if rules.MaxMoves != nil {
			text += fmt.Sprintf(", at most %d times", *rules.MaxMoves)
		}
	}
	if task.Status.Moves > 0 {
		text += "; moved " + plural.Count(int(task.Status.Moves), "time")
	}
	if last := task.Status.LastMove; last != nil {
		text += fmt.Sprintf(", last at %s by MovePlan %s", p.second(last.Time.Time), last.Plan)
	}
	return text
}

// interruptionText returns when and why Pods of a task were taken away last.
func interruptionText(p *Page, task *v1.GPUTask) string {
	last := task.Status.LastInterruption
	if last == nil {
		return ""
	}
	text := gputask.InterruptionText(last, " at "+p.second(last.Time.Time))
	if last.EndTime != nil {
		text += "; it ran again at " + p.second(last.EndTime.Time)
	}
	return text
}

func failureText(task *v1.GPUTask) string {
	limit, policy := ptr.Deref(task.Spec.BackoffLimit, 6), cmp.Or(task.Spec.FailurePolicy, v1.RestartTask)
	failures := task.Status.Restarts
	if failed := meta.FindStatusCondition(task.Status.Conditions, v1.ConditionFailed); failed != nil && failed.Reason == v1.ReasonBackoffLimitExceeded {
		failures++ // the last one was not followed by a restart
	}
	text := "none so far"
	if failures > 0 {
		text = plural.Count(failures, "failure")
	}
	if limit == 0 {
		return text + ", no retries"
	}
	return fmt.Sprintf("%s, at most %d %s (%s)", text, limit, plural.Verb(limit, "retry", "retries"), policy)
}

func timeText(p *Page, at *metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return p.second(at.Time) + " (" + p.Age(at.Time) + " ago)"
}

func deadlineText(p *Page, task *v1.GPUTask, limit time.Duration) string {
	text := span(limit) + " after its start"
	if task.Status.StartTime != nil {
		text += ", at " + p.second(task.Status.StartTime.Add(limit))
	}
	return text
}

// queueText returns the queue that a task's Pods are in, with the task's position there while it waits.
func queueText(task *v1.GPUTask, queue string) string {
	estimate := task.Status.EstimatedStart
	if estimate == nil || estimate.Position == 0 || task.Status.Phase != v1.PhasePending {
		return queue
	}
	return fmt.Sprintf("%s, position %d", cmp.Or(queue, "none"), estimate.Position)
}

// namedQueue returns the queue that a task names; empty if that of its namespace counts.
func namedQueue(task *v1.GPUTask) string {
	if task.Spec.Queue == "" && task.Spec.Template != nil {
		return task.Spec.Template.Labels[v1.LabelQueue]
	}
	return task.Spec.Queue
}

func maxRuntimeText(p *Page, task *v1.GPUTask) string {
	limit, queue := gputask.RuntimeLimit(&task.Spec, &task.Status)
	if limit == 0 {
		return ""
	}
	text := "at most " + span(limit)
	if queue != "" {
		text += " in queue " + queue
	}
	if since := task.Status.RunningSince; since != nil {
		end := since.Add(limit - time.Duration(task.Status.PastRuntimeSeconds)*time.Second)
		text += ", until " + p.second(end)
	}
	return text
}

func describePods(p *Page, pods []*corev1.Pod) {
	t := newTable("NAME", "PHASE", "NODE", "GPUS", "RESTARTS", "AGE", "MESSAGE")
	for _, pod := range pods {
		t.add(pod.Name, podPhase(pod), orNone(pod.Spec.NodeName), orNone(abbreviate(assignedGPUs(pod), 2)), restarts(pod),
			p.Age(pod.CreationTimestamp.Time), podMessage(pod))
	}
	t.section(p, "Pods")
}

func podPhase(pod *corev1.Pod) Cell {
	styles := map[corev1.PodPhase]Style{
		corev1.PodPending: Yellow, corev1.PodRunning: Green, corev1.PodSucceeded: Faint, corev1.PodFailed: Red,
	}
	if pod.DeletionTimestamp != nil {
		return Cell{Text: "Terminating", Style: Purple}
	}
	return Cell{Text: string(pod.Status.Phase), Style: styles[pod.Status.Phase]}
}

// assignedGPUs returns the shortened UUIDs of a Pod's GPUs.
func assignedGPUs(pod *corev1.Pod) []string {
	text := pod.Annotations[inventory.AssignmentAnnotation]
	if text == "" {
		return nil
	}
	assignment, err := inventory.ParseAssignment(text)
	if err != nil {
		return []string{"<unreadable>"}
	}
	var uuids []string
	for _, resources := range assignment.Containers {
		for _, ids := range resources {
			uuids = append(uuids, ids...)
		}
	}
	slices.Sort(uuids)
	uuids = slices.Compact(uuids)
	for i := range uuids {
		uuids[i] = shortUUID(uuids[i])
	}
	return uuids
}

// shortUUID returns as much of a GPU's UUID as identifies it in practice.
func shortUUID(uuid string) string {
	const enough = len("GPU-01234567")
	return uuid[:min(len(uuid), enough)]
}

func restarts(pod *corev1.Pod) int32 {
	count := int32(0)
	for i := range pod.Status.ContainerStatuses {
		count += pod.Status.ContainerStatuses[i].RestartCount
	}
	return count
}

// podMessage returns a Pod's status message, or why the scheduler has not placed it.
func podMessage(pod *corev1.Pod) string {
	if pod.Status.Message != "" {
		return oneLine(pod.Status.Message)
	}
	if reason := waitingreason.Of(pod); reason != nil {
		return truncate(oneLine(waitingreason.Sentence(reason)), messageLength)
	}
	return ""
}

func describeConditions(p *Page, conditions []metav1.Condition) {
	t := newTable("TYPE", "STATUS", "SINCE", "REASON", "MESSAGE")
	for i := range conditions {
		condition := &conditions[i]
		t.add(condition.Type, string(condition.Status), p.Age(condition.LastTransitionTime.Time), condition.Reason, p.message(condition.Message))
	}
	t.sectionIfAny(p, "Conditions")
}

// shownEvents limits how many different Events are shown: the latest.
const shownEvents = 20

func describeEvents(p *Page, events []analysis.FoldedEvent) {
	t := newTable("AGE", "TYPE", "REASON", "ABOUT", "FROM", "MESSAGE")
	shown := events[max(len(events)-shownEvents, 0):]
	for i := range shown {
		event := &shown[i]
		age := p.Age(event.Last)
		if event.Count > 1 {
			age += fmt.Sprintf(" (×%d over %s)", event.Count, span(event.Last.Sub(event.First)))
		}
		t.add(age, event.Type, event.Reason, abbreviate(event.Objects, 1), event.From, p.message(event.Message))
	}
	t.section(p, "Events")
	if earlier := len(events) - len(shown); earlier > 0 {
		p.Printf("  and %s\n", plural.Count(earlier, "earlier one"))
	}
}

// shownWarnings limits how many different warnings are shown.
const shownWarnings = 8

// warnings writes what nodes and others say about Pods of a task, the latest last.
func warnings(p *Page, list []analysis.PodWarning) {
	t := newTable("AGE", "POD", "REASON", "MESSAGE")
	for _, warning := range list[max(len(list)-shownWarnings, 0):] {
		t.add(p.Age(warning.Time.Time), abbreviate(warning.Pods, 1), warning.Reason, p.message(warning.Message))
	}
	t.sectionIfAny(p, "Warnings about its Pods")
}
