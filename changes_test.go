// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/artifacts"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

// taskChange is two changes of a field of a task's spec that may change.
type taskChange struct {
	// before prepares the task before its Pods are created, and world what else there is when they run.
	before func(*v1.GPUTask)
	world  func(*fixture)
	// onlySuspended is true if the API server allows the change only while the task is suspended.
	onlySuspended bool
	first, second func(*v1.GPUTaskSpec)
	// then is what happens after the change that shows it, if it does not show at once.
	then func(*fixture, *v1.GPUTask)
}

func template(image string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: v1.ContainerName, Image: image}}}}
}

func isArray(task *v1.GPUTask) {
	task.Spec.Completions, task.Spec.Replicas, task.Spec.BackoffLimitPerIndex = new(int32(9)), new(int32(2)), new(int32(0))
	task.Status.FailedIndexes = "3,5"
}

func reschedules(change func(*v1.Rescheduling)) func(*v1.GPUTaskSpec) {
	return func(s *v1.GPUTaskSpec) {
		s.Rescheduling = &v1.Rescheduling{}
		change(s.Rescheduling)
	}
}

func saves(mode v1.CheckpointMode, seconds int32) func(*v1.GPUTaskSpec) {
	return func(s *v1.GPUTaskSpec) { s.Checkpoint = &v1.Checkpoint{Mode: mode, TimeoutSeconds: &seconds} }
}

// taskChanges are by the path of the field. What follows a space tells several of a field apart.
var taskChanges = map[string]taskChange{
	"template": {
		onlySuspended: true,
		first:         func(s *v1.GPUTaskSpec) { s.Template = template("first") },
		second:        func(s *v1.GPUTaskSpec) { s.Template = template("second") },
	},
	"roles.template": {
		before: func(t *v1.GPUTask) {
			t.Spec.Replicas, t.Spec.Roles = new(int32(1)), []v1.Role{{Name: "leader"}, {Name: "worker", Replicas: new(int32(2))}}
		},
		onlySuspended: true,
		first:         func(s *v1.GPUTaskSpec) { s.Roles[1].Template = template("first") },
		second:        func(s *v1.GPUTaskSpec) { s.Roles[1].Template = template("second") },
	},
	"priority": {
		onlySuspended: true,
		first:         func(s *v1.GPUTaskSpec) { s.Priority = "gpu-high-priority" },
		second:        func(s *v1.GPUTaskSpec) { s.Priority = "gpu-low-priority" },
	},
	"queue": {
		onlySuspended: true,
		first:         func(s *v1.GPUTaskSpec) { s.Queue = "vision" },
		second:        func(s *v1.GPUTaskSpec) { s.Queue = "speech" },
	},
	"checkpoint.mode":           {onlySuspended: true, first: saves(v1.CheckpointSignal, 60), second: saves(v1.CheckpointPreStop, 60)},
	"checkpoint.timeoutSeconds": {onlySuspended: true, first: saves(v1.CheckpointSignal, 90), second: saves(v1.CheckpointSignal, 120)},
	"suspend": {
		first:  func(s *v1.GPUTaskSpec) { s.Suspend = new(true) },
		second: func(s *v1.GPUTaskSpec) { s.Suspend = new(false) },
	},
	"replicas of an array": {
		before: isArray,
		first:  func(s *v1.GPUTaskSpec) { s.Replicas = new(int32(4)) },
		second: func(s *v1.GPUTaskSpec) { s.Replicas = new(int32(1)) },
	},
	"replicas of an elastic gang": {
		before: func(t *v1.GPUTask) { t.Spec.MaxReplicas, t.Spec.MinAvailable = new(int32(4)), new(int32(1)) },
		first:  func(s *v1.GPUTaskSpec) { s.Replicas = new(int32(3)) },
		second: func(s *v1.GPUTaskSpec) { s.Replicas = new(int32(1)) },
	},
	"maxFailedIndexes": {
		before: isArray,
		first:  func(s *v1.GPUTaskSpec) { s.MaxFailedIndexes = new(int32(1)) },
		second: func(s *v1.GPUTaskSpec) { s.MaxFailedIndexes = new(int32(0)) },
	},
	"backoffLimit": {
		first:  func(s *v1.GPUTaskSpec) { s.BackoffLimit = new(int32(0)) },
		second: func(s *v1.GPUTaskSpec) { s.BackoffLimit = new(int32(1)) },
		then:   func(f *fixture, _ *v1.GPUTask) { f.endPods(corev1.PodFailed, 1) },
	},
	"activeDeadlineSeconds": {
		first:  func(s *v1.GPUTaskSpec) { s.ActiveDeadlineSeconds = new(int64(3600)) },
		second: func(s *v1.GPUTaskSpec) { s.ActiveDeadlineSeconds = new(int64(36000)) },
		then:   func(f *fixture, _ *v1.GPUTask) { f.clock.Step(time.Hour) },
	},
	"maxRuntimeSeconds": {
		first:  func(s *v1.GPUTaskSpec) { s.MaxRuntimeSeconds = new(int64(3600)) },
		second: func(s *v1.GPUTaskSpec) { s.MaxRuntimeSeconds = new(int64(36000)) },
	},
	"ttlSecondsAfterFinished": {
		first:  func(s *v1.GPUTaskSpec) { s.TTLSecondsAfterFinished = new(int32(60)) },
		second: func(s *v1.GPUTaskSpec) { s.TTLSecondsAfterFinished = new(int32(36000)) },
		then: func(f *fixture, task *v1.GPUTask) {
			f.endPods(corev1.PodSucceeded, 0)
			f.settle(task)
			f.clock.Step(time.Hour)
		},
	},
	"unreachableNodeTimeoutSeconds": {
		world:  func(f *fixture) { f.loseNode() },
		first:  func(s *v1.GPUTaskSpec) { s.UnreachableNodeTimeoutSeconds = new(int32(60)) },
		second: func(s *v1.GPUTaskSpec) { s.UnreachableNodeTimeoutSeconds = new(int32(30)) },
	},
	"startTimeoutSeconds": {
		first:  func(s *v1.GPUTaskSpec) { s.StartTimeoutSeconds = new(int32(60)) },
		second: func(s *v1.GPUTaskSpec) { s.StartTimeoutSeconds = new(int32(30)) },
		then:   func(f *fixture, _ *v1.GPUTask) { f.stickPods() },
	},
	"rescheduling.policy": {
		first:  reschedules(func(r *v1.Rescheduling) { r.Policy = v1.ReschedulingNever }),
		second: reschedules(func(r *v1.Rescheduling) { r.Policy = v1.ReschedulingAllowed }),
	},
	"rescheduling.minRuntimeSeconds": {
		first:  reschedules(func(r *v1.Rescheduling) { r.MinRuntimeSeconds = new(int32(36000)) }),
		second: reschedules(func(r *v1.Rescheduling) { r.MinRuntimeSeconds = new(int32(0)) }),
	},
	"rescheduling.maxMoves": {
		before: func(t *v1.GPUTask) { t.Status.Moves = 2 },
		first:  reschedules(func(r *v1.Rescheduling) { r.MaxMoves = new(int32(2)) }),
		second: reschedules(func(r *v1.Rescheduling) { r.MaxMoves = new(int32(3)) }),
	},
}

// settled is what has become of a task and its Pods.
type settled struct {
	Gone    bool
	Phase   v1.GPUTaskPhase
	Failing string
	// Stays is why the rescheduler may not move it.
	Stays string
	Pods  map[string]settledPod
}

type settledPod struct {
	Labels, Annotations map[string]string
	Spec                corev1.PodSpec
	Phase               corev1.PodPhase
	Deleting            bool
}

// TestAChangeThatNobodyHasSeenIsFollowed: whether the controller has seen each change, has seen several at once, or was
// not running, a task and its Pods end up the same.
func TestAChangeThatNobodyHasSeenIsFollowed(t *testing.T) {
	t.Parallel()
	for name, change := range taskChanges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unchanged := change.life(t, seen)
			once, twice := change.life(t, seen, change.first), change.life(t, seen, change.first, change.second)
			if gocmp.Equal(unchanged, once) {
				t.Errorf("the change does not show: %+v", once)
			}
			for how, see := range map[string]func(*fixture, *v1.GPUTask, bool){"at once": atOnce, "while the controller was stopped": stopped} {
				if diff := gocmp.Diff(once, change.life(t, see, change.first)); diff != "" {
					t.Errorf("a change %s (-want +got):\n%s", how, diff)
				}
				if diff := gocmp.Diff(twice, change.life(t, see, change.first, change.second)); diff != "" {
					t.Errorf("two changes %s (-want +got):\n%s", how, diff)
				}
			}
		})
	}
}

// seen, atOnce and stopped are what the controller does after each write to a task, and after the last.
func seen(f *fixture, task *v1.GPUTask, _ bool) { f.settle(task) }

func atOnce(f *fixture, task *v1.GPUTask, last bool) {
	if last {
		f.settle(task)
	}
}

func stopped(f *fixture, task *v1.GPUTask, last bool) {
	if last {
		f.restart()
		f.settle(task)
	}
}

// life changes a task while its Pods run.
func (c taskChange) life(t *testing.T, see func(*fixture, *v1.GPUTask, bool), changes ...func(*v1.GPUTaskSpec)) settled {
	t.Helper()
	f := newFixture(t)
	task := newTask("train", 2)
	if c.before != nil {
		c.before(task)
	}
	f.store(task)
	f.settle(task)
	if c.world != nil {
		c.world(f)
		f.settle(task)
	}
	var writes []func(*v1.GPUTaskSpec)
	for _, change := range changes {
		if c.onlySuspended {
			resume := func(s *v1.GPUTaskSpec) { change(s); s.Suspend = nil }
			writes = append(writes, func(s *v1.GPUTaskSpec) { s.Suspend = new(true) }, resume)
		} else {
			writes = append(writes, change)
		}
	}
	for i, write := range writes {
		changed := f.stored(task)
		write(&changed.Spec)
		if err := f.fake.Tracker().Update(schema.GroupVersionResource{Group: v1.GroupName, Version: "v1", Resource: "gputasks"}, changed, changed.Namespace); err != nil {
			t.Fatal(err)
		}
		see(f, task, i == len(writes)-1)
	}
	if c.then != nil {
		c.then(f, task)
		f.settle(task)
	}
	return f.settled(task)
}

// restart replaces the process by another one.
func (f *fixture) restart() {
	f.t.Helper()
	opts := newOptions()
	process, err := newProcess(f.t.Context(), clients{kube: f.kube, tasks: f.fake}, f.events, f.clock, opts, opts.components())
	if err != nil {
		f.t.Fatal(err)
	}
	f.process, f.Controller = process, process.controller
	f.working.Store(true)
	f.t.Cleanup(f.queue.ShutDown)
}

// settle has the controller and the nodes work until nothing changes any more.
func (f *fixture) settle(task *v1.GPUTask) {
	f.t.Helper()
	for range 8 {
		f.observe()
		if err := f.sync(task); err != nil {
			f.t.Log(err)
		}
		f.startPods()
		f.clock.Step(maxProgressDelay + time.Second)
	}
	f.observe()
	select {
	case <-f.events.Events:
	default:
	}
}

// startPods has the Pods that wait run.
func (f *fixture) startPods() {
	f.t.Helper()
	f.changePods(func(pod *corev1.Pod) {
		if pod.Status.Phase != "" && pod.Status.Phase != corev1.PodPending {
			return
		}
		started := metav1.NewTime(f.clock.Now())
		pod.Spec.NodeName, pod.Status.Phase, pod.Status.StartTime = "node", corev1.PodRunning, &started
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: v1.ContainerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
		}}
	})
}

// endPods has the Pods end.
func (f *fixture) endPods(phase corev1.PodPhase, exitCode int32) {
	f.t.Helper()
	f.changePods(func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1.ContainerName, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: "Error", StartedAt: metav1.NewTime(f.clock.Now()), FinishedAt: metav1.NewTime(f.clock.Now())},
		}}}
	})
}

// stickPods has the Pods wait for their containers for an hour.
func (f *fixture) stickPods() {
	f.t.Helper()
	f.changePods(func(pod *corev1.Pod) {
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(f.clock.Now().Add(-time.Hour)),
		}}}
	})
}

// loseNode has the node of the Pods become unreachable, and somebody delete them.
func (f *fixture) loseNode() {
	f.t.Helper()
	long := metav1.NewTime(f.clock.Now().Add(-time.Hour))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: long},
	}}}
	if err := f.kube.Tracker().Add(node); err != nil {
		f.t.Fatal(err)
	}
	f.changePods(func(pod *corev1.Pod) { pod.DeletionTimestamp = &long })
}

func (f *fixture) changePods(change func(*corev1.Pod)) {
	f.t.Helper()
	list, err := f.kube.CoreV1().Pods("").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range list.Items {
		pod := &list.Items[i]
		pod.UID = cmp.Or(pod.UID, types.UID(pod.Name))
		change(pod)
		if err := f.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) settled(task *v1.GPUTask) settled {
	f.t.Helper()
	got, err := f.fake.FalldioV1().GPUTasks(task.Namespace).Get(f.t.Context(), task.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return settled{Gone: true}
	}
	if err != nil {
		f.t.Fatal(err)
	}
	is := settled{Phase: got.Status.Phase, Pods: map[string]settledPod{}}
	if failing := conditionOf(&got.Status, v1.ConditionFailureTarget); failing != nil {
		is.Failing = failing.Reason
	}
	view := clusterview.New(&clusterview.Objects{Tasks: []clusterview.Task{{GPUTask: got, Pods: f.podsOf(got)}}, Now: f.clock.Now()})
	is.Stays = reschedule.NewPlanner(view, nil).Immovable(&clusterview.Task{GPUTask: got, Pods: f.podsOf(got)})
	for _, pod := range f.podsOf(got) {
		is.Pods[pod.Name] = settledPod{
			Labels: pod.Labels, Annotations: pod.Annotations, Spec: pod.Spec, Phase: pod.Status.Phase, Deleting: pod.DeletionTimestamp != nil,
		}
	}
	return is
}

// queueChanges are a change of each field of a GPUQueue, and what of the tree of queues shows it. The
// tree is all that a process keeps of queues, and is made anew from all of them after each change.
var queueChanges = map[string]struct {
	change func(*v1.GPUQueueSpec)
	shows  func(*queueing.Tree) any
}{
	"parent":            {func(s *v1.GPUQueueSpec) { s.Parent = "root" }, func(t *queueing.Tree) any { return t.Path("vision") }},
	"namespaceSelector": {func(s *v1.GPUQueueSpec) { s.NamespaceSelector = nil }, func(t *queueing.Tree) any { return t.Accepting(nil) }},
	"resources.gpu": {
		func(s *v1.GPUQueueSpec) { s.Resources[0].GPU = "a100" }, func(t *queueing.Tree) any { return t.Guaranteed("vision", "a100") },
	},
	"resources.guaranteed": {
		func(s *v1.GPUQueueSpec) { s.Resources[0].Guaranteed = 7 }, func(t *queueing.Tree) any { return t.Guaranteed("vision", "h100") },
	},
	"resources.limit": {
		func(s *v1.GPUQueueSpec) { s.Resources[0].Limit = new(int32(3)) },
		func(t *queueing.Tree) any {
			return queueing.NewLedger(t).Fits("vision", queueing.Amounts{"h100": 4 * queueing.GPU}) != nil
		},
	},
	"weight":                    {func(s *v1.GPUQueueSpec) { s.Weight = new(int32(3)) }, func(t *queueing.Tree) any { return t.Weight("vision") }},
	"maxRuntimeSeconds":         {func(s *v1.GPUQueueSpec) { s.MaxRuntimeSeconds = new(int64(60)) }, func(t *queueing.Tree) any { return t.MaxRuntime("vision") }},
	"defaultRuntimeSeconds":     {func(s *v1.GPUQueueSpec) { s.DefaultRuntimeSeconds = new(int64(60)) }, func(t *queueing.Tree) any { return t.DefaultRuntime("vision") }},
	"priorities":                {func(s *v1.GPUQueueSpec) { s.Priorities = []string{"low"} }, func(t *queueing.Tree) any { return t.Priorities("vision") }},
	"reclaim.policy":            {func(s *v1.GPUQueueSpec) { s.Reclaim.Policy = v1.ReclaimNever }, func(t *queueing.Tree) any { return t.Reclaim("vision") }},
	"reclaim.minRuntimeSeconds": {func(s *v1.GPUQueueSpec) { s.Reclaim.MinRuntimeSeconds = new(int32(60)) }, func(t *queueing.Tree) any { return t.Reclaim("vision") }},
	"reclaim.noticeSeconds":     {func(s *v1.GPUQueueSpec) { s.Reclaim.NoticeSeconds = new(int32(7)) }, func(t *queueing.Tree) any { return t.Reclaim("vision") }},
}

func TestAChangeOfAQueueShowsInTheTree(t *testing.T) {
	t.Parallel()
	for name, change := range queueChanges {
		root, vision := newQueue("root"), newQueue("vision", func(q *v1.GPUQueue) {
			q.Spec.Resources, q.Spec.Reclaim = []v1.GPUQueueResource{{GPU: "h100", Guaranteed: 2}}, &v1.GPUQueueReclaim{}
		})
		before := change.shows(gpuqueue.NewTree([]*v1.GPUQueue{root, vision}))
		change.change(&vision.Spec)
		if after := change.shows(gpuqueue.NewTree([]*v1.GPUQueue{root, vision})); gocmp.Equal(before, after, cmpopts.EquateEmpty()) {
			t.Errorf("%s: the change does not show: %v", name, after)
		}
	}
}

// planChanges are the changes of a MovePlan, and to which phase each leads at once.
var planChanges = map[string]struct {
	change func(*v1.MovePlan)
	want   v1.MovePlanPhase
}{
	"approved":                 {func(p *v1.MovePlan) { p.Spec.Approved = true }, v1.PlanApproved},
	"abort":                    {func(p *v1.MovePlan) { p.Spec.Abort = true }, v1.PlanAborted},
	"abort after the approval": {func(p *v1.MovePlan) { p.Spec.Approved, p.Spec.Abort = true, true }, v1.PlanAborted},
}

func TestAChangeOfAPlanIsFollowedWheneverItIsSeen(t *testing.T) {
	t.Parallel()
	for name, change := range planChanges {
		for _, before := range []v1.MovePlanPhase{"", v1.PlanProposed} {
			plan := &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: "plan"}, Spec: v1.MovePlanSpec{
				Goal: v1.GoalCapacity, Moves: []v1.Move{{Task: v1.TaskReference{Namespace: "default", Name: "train"}, Pod: "train-0"}},
			}, Status: v1.MovePlanStatus{Phase: before}}
			change.change(plan)
			out, err := moveplan.Step(moveplan.Input{Plan: plan, Objects: &clusterview.Objects{Now: testTime, Plans: []*v1.MovePlan{plan}}})
			if err != nil || out.Status == nil || out.Status.Phase != change.want {
				t.Errorf("%s: got %+v, %v; want the phase %s", name, out.Status, err, change.want)
			}
		}
	}
}

// TestEveryFieldThatMayChangeIsChangedByATest: whoever adds a field that may change says here what shows
// that it was followed.
func TestEveryFieldThatMayChangeIsChangedByATest(t *testing.T) {
	t.Parallel()
	for crd, tested := range map[string][]string{
		"gputasks":  slices.Collect(maps.Keys(taskChanges)),
		"gpuqueues": slices.Collect(maps.Keys(queueChanges)),
		"moveplans": slices.Collect(maps.Keys(planChanges)),
	} {
		for i, name := range tested {
			tested[i], _, _ = strings.Cut(name, " ")
		}
		slices.Sort(tested)
		tested = slices.Compact(tested)
		if diff := gocmp.Diff(mutableFields(t, crd), tested); diff != "" {
			t.Errorf("the fields of %s that may change, and those that tests change (-want +got):\n%s", crd, diff)
		}
	}
}

// mutableFields returns the paths of the fields in the spec of a kind that may change, by its CRD: all but those
// that a rule forbids to change in any case.
func mutableFields(t *testing.T, plural string) []string {
	t.Helper()
	text, err := artifacts.Files.ReadFile("crds/falldio.com_" + plural + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		t.Fatal(err)
	}
	fields := mutableIn(new(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]), "")
	slices.Sort(fields)
	return fields
}

// mutableIn returns the paths of the fields that may change in a part of a spec.
func mutableIn(schema *apiextensionsv1.JSONSchemaProps, path string) []string {
	if schema.Items != nil && schema.Items.Schema != nil {
		schema = schema.Items.Schema
	}
	opaque := path == "template" || path == "roles.template" || path == "namespaceSelector" // changed as a whole
	if len(schema.Properties) == 0 || opaque {
		return []string{path}
	}
	fixed := fixedBy(schema.XValidations)
	if path == "roles" {
		fixed["name"] = true // of which there is a list, in spec's rules
	}
	var fields []string
	for name := range schema.Properties {
		if !fixed[name] {
			fields = append(fields, mutableIn(new(schema.Properties[name]), strings.TrimPrefix(path+"."+name, "."))...)
		}
	}
	return fields
}

var (
	// ifPresent compares an optional field with what it was, if both are present.
	asText    = regexp.MustCompile(` \|\| string\(self\.\w+\) == oldSelf\.\w+ \|\| self\.\w+ == string\(oldSelf\.\w+\)`)
	ifPresent = regexp.MustCompile(`\(!has\(self\.\w+\) \|\| (self\.\w+ == oldSelf\.\w+)\)`)
	asBefore  = regexp.MustCompile(`self\.(\w+) == oldSelf\.(\w+)( |$)`)
	escaped   = strings.NewReplacer("__dash__", "-", "__for__", "for")
)

// fixedBy returns the fields that rules forbid to change, without an alternative.
func fixedBy(rules apiextensionsv1.ValidationRules) map[string]bool {
	fixed := map[string]bool{}
	for i := range rules {
		rule := ifPresent.ReplaceAllString(asText.ReplaceAllString(rules[i].Rule, ""), "$1") // 8 and "8" are the same
		if strings.Contains(rule, "||") {
			continue
		}
		for _, match := range asBefore.FindAllStringSubmatch(rule, -1) {
			if match[1] == match[2] {
				fixed[escaped.Replace(match[1])] = true
			}
		}
	}
	return fixed
}
