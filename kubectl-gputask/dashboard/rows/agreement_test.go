// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/pkg/verdict"
	"falldio.github.io/gpu-controller/pkg/waitingreason"
)

var firstSeed = flag.Uint64("agreement-seed", 0, "the first seed of the random clusters")

// clusters is how many random clusters there are.
const clusters = 400

// TestEverySurfaceSaysTheSameInRandomClusters demands the same verdict and the same cause of a task from its
// status, the commands and the page, whatever the cluster is like.
func TestEverySurfaceSaysTheSameInRandomClusters(t *testing.T) {
	t.Parallel()
	seen := map[verdict.Kind]int{}
	for seed := *firstSeed; seed < *firstSeed+clusters; seed++ {
		w := newWorld(t, seed)
		for i := range w.objects.Tasks {
			task := &w.objects.Tasks[i]
			kind, problem := w.disagreement(task)
			if seen[kind]++; problem != "" {
				t.Errorf("seed %d, task %s (%s: %s): %s", seed, task.Name, task.Status.Phase, task.Status.Message, problem)
			}
		}
		if problem := w.disorder(); problem != "" {
			t.Errorf("seed %d: %s", seed, problem)
		}
	}
	for _, kind := range []verdict.Kind{verdict.Runs, v1.TaskQueued, v1.TaskStarting, v1.TaskBlocked, v1.TaskNeverFits} {
		if seen[kind] < clusters/10 {
			t.Errorf("only %d verdicts are %s: %v", seen[kind], kind, seen)
		}
	}
}

// world is a random cluster, and what everybody says about it.
type world struct {
	t      *testing.T
	random *rand.Rand
	// objects are the cluster, queues nil for none, waiting its Pods without nodes, and free how many GPUs of each node
	// nobody holds.
	objects clusterview.Objects
	queues  *analysis.Queues
	waiting []*corev1.Pod
	free    map[string]int
	// fresh are the tasks whose published reasons are what the engine says of the cluster as it is.
	fresh map[string]bool
	view  *analysis.View
	set   Set
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 7)), free: map[string]int{}, fresh: map[string]bool{}}
	w.objects = clusterview.Objects{Levels: snapshot.DefaultLevels(), Now: start}
	for i := range 2 + w.random.IntN(4) {
		w.addNode(fmt.Sprint("node-", i))
	}
	w.addQueues()
	for i := range 3 + w.random.IntN(6) {
		w.addTask(fmt.Sprint("task-", i))
	}
	w.look()
	w.publish()
	w.look()
	return w
}

// one returns one of some values.
func one[T any](w *world, values ...T) T { return values[w.random.IntN(len(values))] }

func (w *world) addNode(name string) {
	cards := 1 + w.random.IntN(4)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelGPUModel: one(w, "h100", "h100", "a100")}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: one(w, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse)}}
	node.Spec.Unschedulable = w.random.IntN(4) == 0
	if w.random.IntN(6) == 0 {
		node.Spec.Taints = []corev1.Taint{{Key: "example.com/team", Effect: corev1.TaintEffectNoSchedule}}
	}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("20"),
		v1.ResourceGPU: *resource.NewQuantity(int64(cards), resource.DecimalSI),
	}
	node.Status.Capacity = node.Status.Allocatable
	w.objects.Nodes, w.free[name] = append(w.objects.Nodes, node), cards
}

func (w *world) addQueues() {
	if w.random.IntN(2) == 0 {
		return
	}
	var list []*v1.GPUQueue
	for _, name := range []string{"everybody", "small"} {
		queue := &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.GPUQueueSpec{NamespaceSelector: &metav1.LabelSelector{}}}
		if name == "small" {
			queue.Spec.NamespaceSelector.MatchLabels = map[string]string{"team": one(w, "a", "b")}
			queue.Spec.Resources = []v1.GPUQueueResource{{GPU: v1.AnyGPU, Limit: new(int32(w.random.IntN(4)))}}
		}
		list = append(list, queue)
	}
	w.queues = analysis.NewQueues(list, []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "a"}}}})
}

// addTask adds a task that is as gpu-controller has it after its first decisions.
func (w *world) addTask(name string) {
	w.t.Helper()
	created := metav1.NewTime(start.Add(-time.Duration(1+w.random.IntN(120)) * time.Minute))
	task := clusterview.Task{GPUTask: &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), CreationTimestamp: created}}}
	task.Spec = v1.GPUTaskSpec{GPU: one(w, "", "h100", "h100", "a100", "b200"), GPUAmount: one(w, "1", "1", "2", "3", "8"), Replicas: new(one(w, int32(1), 1, 2, 3))}
	task.Spec.Queue = one(w, "", "", "everybody", "small", "nobody")
	task.Spec.Suspend = new(w.random.IntN(10) == 0)
	switch w.random.IntN(8) {
	case 0:
		task.Spec.DependsOn = []v1.Dependency{{Name: one(w, "nobody", "task-0")}}
	case 1:
		task.Spec.Completions = new(*task.Spec.Replicas)
	case 2:
		task.Spec.MinAvailable = new(int32(1))
	default:
	}
	refused := w.refusalOf(task.GPUTask)
	plan := w.decide(&task, refused)
	if refused == nil {
		for i := range plan.Create {
			pod, err := plan.Create[i].Build()
			if err != nil {
				w.t.Fatal(err)
			}
			pod.UID, pod.CreationTimestamp, pod.Status.Phase = types.UID(fmt.Sprintf("%s-%d", name, i)), created, corev1.PodPending
			pod.Spec.Priority = new(one(w, int32(0), 0, 10))
			task.Pods = append(task.Pods, pod)
		}
	}
	if w.random.IntN(2) == 0 {
		w.run(task.Pods)
	}
	w.decide(&task, refused)
	w.objects.Tasks = append(w.objects.Tasks, task)
}

// decide has gpu-controller decide on a task, and writes its status.
func (w *world) decide(task *clusterview.Task, refused *gputask.Refusal) gputask.Plan {
	w.t.Helper()
	plan, err := gputask.Decide(gputask.Input{
		Task: task.GPUTask, Pods: task.Pods, HasService: true, Refusal: refused, Now: start, QueueRuntime: &v1.QueueRuntime{},
		Lookup: func(name string) *v1.GPUTask {
			for i := range w.objects.Tasks {
				if w.objects.Tasks[i].Name == name {
					return w.objects.Tasks[i].GPUTask
				}
			}
			return nil
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	task.Status = plan.Status
	return plan
}

// refusalOf returns why the Pods of a task can't be created; nil if they can.
func (w *world) refusalOf(task *v1.GPUTask) *gputask.Refusal {
	w.t.Helper()
	imagined, err := analysis.NewHypothetical(task, v1.ResourceGPU, func(*corev1.Pod) error { return nil }, metav1.NewTime(start))
	if err != nil {
		w.t.Fatal(err)
	}
	if problem := w.queues.Assign(imagined.Pods[0]).Problem; problem != nil {
		return &gputask.Refusal{Reason: string(problem.Reason), Message: problem.Message}
	}
	if w.random.IntN(12) == 0 {
		return &gputask.Refusal{Reason: "QuotaExceeded", Message: "exceeded quota: team, requested: pods=1, used: pods=9, limited: pods=9"}
	}
	return nil
}

// run lets Pods run where GPUs are free, as far as there are some.
func (w *world) run(pods []*corev1.Pod) {
	for _, pod := range pods {
		wanted := pod.Spec.Containers[0].Resources.Limits[v1.ResourceGPU]
		for _, node := range w.objects.Nodes {
			if pod.Spec.NodeName == "" && int64(w.free[node.Name]) >= wanted.Value() {
				w.free[node.Name] -= int(wanted.Value())
				pod.Spec.NodeName, pod.Status.Phase = node.Name, corev1.PodRunning
				pod.Status.StartTime = &metav1.Time{Time: start.Add(-time.Minute)}
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *pod.Status.StartTime}}}}
			}
		}
	}
}

// look makes the view and the rows of the cluster as it is.
func (w *world) look() {
	w.objects.Pods, w.waiting = nil, nil
	for i := range w.objects.Tasks {
		for _, pod := range w.objects.Tasks[i].Pods {
			if pod.Spec.NodeName == "" {
				w.waiting = append(w.waiting, pod)
			} else {
				w.objects.Pods = append(w.objects.Pods, pod)
			}
		}
	}
	w.view = analysis.NewView(&w.objects, nil)
	w.view.UseQueues(w.queues, w.waiting)
	w.set, _ = Build(&Input{View: w.view, Queues: w.queues, Waiting: w.waiting})
}

// publish has schedulers say why Pods wait, as far as they have tried them: gpu-scheduler, or kube-scheduler.
// gpu-controller has seen that.
func (w *world) publish() {
	w.t.Helper()
	positions := map[string]int32{}
	waiting := w.view.Waiting()
	for i := range waiting {
		own := &waiting[i]
		reason := w.reasonFor(own)
		if reason == nil {
			continue
		}
		for _, pod := range own.Pods {
			sentence := waitingreason.Sentence(reason)
			if reason.Reason != "" {
				metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.AnnotationWaitingReason, waitingreason.Encode(reason))
			}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/9 nodes are available: " + sentence + "."}}
		}
		switch {
		case !served(verdict.OfReason(reason)) && w.random.IntN(4) == 0:
			w.estimate(own.Pods[0], map[string]int32{}) // it was before
		case served(verdict.OfReason(reason)) && w.random.IntN(3) > 0:
			w.estimate(own.Pods[0], positions)
		default:
		}
	}
	for i := range w.objects.Tasks {
		if task := &w.objects.Tasks[i]; len(task.Pods) > 0 {
			w.decide(task, nil)
		}
	}
}

// estimate gives a Pod a position of its queue behind the last one, and the time of that.
func (w *world) estimate(pod *corev1.Pod, positions map[string]int32) {
	queue := w.queues.Assign(pod).Queue
	positions[queue] += 1 + int32(w.random.IntN(2)) // another one was ahead of it
	at := metav1.NewTime(start.Add(time.Duration(positions[queue]) * time.Hour))
	text, err := json.Marshal(&v1.StartEstimate{Earliest: at, Likely: at, Latest: at, Queue: queue, Position: positions[queue]})
	if err != nil {
		w.t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.AnnotationStartEstimate, string(text))
}

// reasonFor returns what a scheduler says about Pods: what the engine finds, something that the command line can't
// know, or, for some, nothing.
func (w *world) reasonFor(own *clusterview.Waiting) *v1.WaitingReason {
	w.t.Helper()
	switch w.random.IntN(8) {
	case 0:
		return nil
	case 1:
		return &v1.WaitingReason{Reason: v1.WaitsForExternal, Message: `PersistentVolumeClaim "data" does not exist`}
	case 2:
		return &v1.WaitingReason{Reason: v1.WaitsForQueue, Message: "queue everybody may hold 4 GPUs at most, holds 3, and 2 are asked for"}
	case 3:
		return &v1.WaitingReason{Message: "9 Insufficient falldio.com/gpu"}
	case 4:
		return &v1.WaitingReason{Reason: v1.WaitsForConstraints, Message: "2 nodes with room have a host port in use that it needs", Nodes: []v1.WaitingNodes{{Count: 2, Cause: "NodePorts"}}}
	default:
	}
	w.fresh[own.Task.Name] = true
	if outlook := w.view.Outlook(own); outlook.Verdict == analysis.QueueLimit {
		return &v1.WaitingReason{Reason: v1.WaitsForQueue, Message: outlook.Problem}
	}
	explanation, err := w.view.Cluster.Explain(&own.Gang.Gang)
	if err != nil {
		w.t.Fatal(err)
	}
	if explanation == nil {
		return nil
	}
	reason := &v1.WaitingReason{Reason: v1.WaitsForGPUs, Message: explanation.Cause(), Never: explanation.Never}
	switch {
	case explanation.Never:
		reason.Reason = v1.WaitsForever
	case explanation.Closed:
		reason.Reason = v1.WaitsForClosedNodes
	default:
	}
	for i := range explanation.Remedies {
		remedy := &explanation.Remedies[i]
		reason.Remedies = append(reason.Remedies, v1.WaitingRemedy{Kind: string(remedy.Kind), Nodes: remedy.Nodes, Message: remedy.Text})
	}
	return reason
}

// disagreement returns the verdict on a task, and in what not everybody says the same; empty if they do.
func (w *world) disagreement(task *clusterview.Task) (kind verdict.Kind, problem string) {
	e, found := w.view.Explain(task.Namespace, task.Name)
	if !found {
		return "", "it is not explained"
	}
	said := &e.Verdict
	for _, problem := range []string{w.statusDisagrees(task, said), w.textsDisagree(task, e), w.lineDisagrees(task, e), w.whatIfDisagrees(task, said)} {
		if problem != "" {
			return said.Kind, problem
		}
	}
	return said.Kind, ""
}

// statusDisagrees compares with what gpu-controller has written.
func (w *world) statusDisagrees(task *clusterview.Task, said *verdict.Verdict) string {
	reconciling := meta.FindStatusCondition(task.Status.Conditions, v1.ConditionReconciling)
	switch {
	case reconciling != nil && reconciling.Status == metav1.ConditionTrue && reconciling.Reason != string(said.Kind):
		return fmt.Sprintf("its status says %s, explain %s", reconciling.Reason, said.Kind)
	case !strings.Contains(task.Status.Message, said.Cause):
		return fmt.Sprintf("explain says %q", said.Cause)
	case task.Status.EstimatedStart != nil && !said.IsServed():
		return fmt.Sprintf("it is %s, and its status expects it to start", said.Kind)
	default:
		return ""
	}
}

// textsDisagree looks for the cause in the texts of the commands and the page.
func (w *world) textsDisagree(task *clusterview.Task, e *analysis.Explanation) string {
	var list, described, explained bytes.Buffer
	page := func(to *bytes.Buffer) *show.Page { return &show.Page{Writer: to, Now: w.objects.Now} }
	show.NewTasks(show.TaskColumns{Wide: true}).Write(page(&list), []v1.GPUTask{*task.GPUTask})
	show.Describe(page(&described), &show.Description{Task: task.GPUTask, Pods: task.Pods})
	show.Explanation(page(&explained), e)
	row := ExplanationOf(w.view, e, w.objects.Now)
	onPage := []string{row.Headline}
	for _, line := range row.Lines {
		onPage = append(onPage, line.Value)
	}
	if e.Verdict.Kind == v1.TaskStarting && e.WaitingReason == nil && len(task.Pods) > 0 {
		if hopeless := e.Outlook != nil && !served(e.Outlook.Kind()); hopeless && !strings.Contains(row.Headline, "no scheduler has tried it yet") {
			return "it is starting, but: " + row.Headline
		}
		return "" // nobody has said more than that it waits
	}
	if e.Verdict.Kind == verdict.Runs || gputask.SuspensionRequested(task.GPUTask) { // which all say in their own words
		return ""
	}
	for surface, text := range map[string]string{
		"list": list.String(), "describe": described.String(), "explain": explained.String(), "the page": strings.Join(onPage, "\n"), "its row": w.set[Tasks][task.Namespace+"/"+task.Name].(*Task).Message,
	} {
		if !strings.Contains(text, e.Verdict.Cause) {
			return fmt.Sprintf("%s does not say %q:\n%s", surface, e.Verdict.Cause, text)
		}
	}
	return ""
}

// lineDisagrees compares with the entry of the task in its queue, if it has one, and its row of the page.
func (w *world) lineDisagrees(task *clusterview.Task, e *analysis.Explanation) string {
	row, _ := w.set[Waiting][analysis.KindTask+" "+task.Namespace+"/"+task.Name].(*Entry)
	switch {
	case row == nil && e.Position > 0:
		return fmt.Sprintf("explain says position %d, and it is in no queue", e.Position)
	case row == nil, e.Verdict.Kind == verdict.Runs: // of an array, others wait
		return ""
	case row.Verdict.Kind != e.Verdict.Kind || row.Verdict.Cause != e.Verdict.Cause:
		return fmt.Sprintf("the queue says %+v, explain %+v", row.Verdict, e.Verdict)
	case !strings.Contains(row.Reason, e.Verdict.Cause):
		return fmt.Sprintf("the row says %q, explain %q", row.Reason, e.Verdict.Cause)
	case row.Refused == e.Verdict.IsServed():
		return fmt.Sprintf("that it is refused is %t, and the verdict %s", row.Refused, e.Verdict.Kind)
	case row.Position != e.Position:
		return fmt.Sprintf("the queue says position %d, explain %d", row.Position, e.Position)
	case (row.EstimatedStart != nil) != (e.EstimatedStart != nil):
		return fmt.Sprintf("the queue says %+v, explain %+v", row.EstimatedStart, e.EstimatedStart)
	case e.Position > 0 && len(e.Ahead) != e.Position-1:
		return fmt.Sprintf("position %d behind %v", e.Position, e.Ahead)
	default:
		return ""
	}
}

// whatIfDisagrees compares with what is said about a new task that asks for the same, if that is refused for good,
// or it is: a later one may have to wait.
func (w *world) whatIfDisagrees(task *clusterview.Task, said *verdict.Verdict) string {
	w.t.Helper()
	if !w.fresh[task.Name] || gputask.IsArray(task.GPUTask) || len(w.waitingOf(task)) != len(task.Pods) {
		return ""
	}
	other := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: "other"}, Spec: task.Spec}
	imagined, err := analysis.NewHypothetical(other, v1.ResourceGPU, func(pod *corev1.Pod) error { pod.Spec.Priority = new(int32(0)); return nil }, metav1.NewTime(w.objects.Now))
	if err != nil {
		w.t.Fatal(err)
	}
	objects := w.objects
	objects.Tasks = slices.Concat(objects.Tasks, []clusterview.Task{*imagined})
	view := analysis.NewView(&objects, nil)
	view.UseQueues(w.queues, w.waiting)
	answer := view.WhatIf(imagined)
	if kind := answer.Kind(); served(kind) != served(said.Kind) || !served(kind) && kind != said.Kind {
		return fmt.Sprintf("explain says %s, whatif %s (%s)", said.Kind, kind, answer.Verdict)
	}
	if !served(said.Kind) && !strings.Contains(said.Cause, answer.Nodes) {
		return fmt.Sprintf("explain says %q, whatif %q", said.Cause, answer.Nodes)
	}
	return ""
}

func served(kind verdict.Kind) bool { return (&verdict.Verdict{Kind: kind}).IsServed() }

func (w *world) waitingOf(task *clusterview.Task) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(task.Pods), func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
}

// disorder returns in what the positions of a queue are wrong; empty if they are not: they are one after the other,
// only what is served has one, and who is ahead does not start later.
func (w *world) disorder() string {
	byQueue := map[string][]*Entry{}
	for _, row := range w.set[Waiting] {
		entry := row.(*Entry)
		if entry.Refused && (entry.Position > 0 || entry.EstimatedStart != nil) {
			return fmt.Sprintf("%s is refused (%s), and has position %d and %+v", entry.Name, entry.Verdict.Kind, entry.Position, entry.EstimatedStart)
		}
		if !entry.Refused {
			byQueue[entry.Queue] = append(byQueue[entry.Queue], entry)
		}
	}
	for queue, entries := range byQueue {
		slices.SortFunc(entries, func(a, b *Entry) int { return cmp.Compare(a.Position, b.Position) })
		var last *Entry
		for i, entry := range entries {
			if entry.Position != i+1 {
				return fmt.Sprintf("queue %q: %s has position %d, want %d", queue, entry.Name, entry.Position, i+1)
			}
			if entry.EstimatedStart == nil {
				continue
			}
			if last != nil && entry.EstimatedStart.Likely.Before(&last.EstimatedStart.Likely) {
				return fmt.Sprintf("queue %q: %s starts at %s, and %s ahead of it at %s", queue, entry.Name, entry.EstimatedStart.Likely, last.Name, last.EstimatedStart.Likely)
			}
			last = entry
		}
	}
	return ""
}
