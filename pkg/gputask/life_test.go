// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestRandomLives simulates the lives of many tasks in a model of a cluster: Pods run,
// succeed, fail, vanish and are deleted at random, and the controller is killed between its
// writes at random. Whatever happens, no failure may be counted twice or missed, no two
// attempts of a gang may run together, no member that succeeded may run again, and every
// task must end.
func TestRandomLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		w := newWorld(t, seed)
		w.live()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// world is one task, its Pods and what must be true about them.
type world struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	task   *v1.GPUTask
	pods   map[string]*corev1.Pod
	uids   int
	// failures are the failures that must be counted.
	failures int32
	// succeeded are the members that may not run again in this attempt.
	succeeded map[string]bool
	// troubles is how many Pods may still fail or get lost.
	troubles int
	// dead is true if the controller was killed before its last write.
	dead bool
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	policy := v1.RestartTask
	if random.IntN(2) == 0 {
		policy = v1.RestartPod
	}
	lost := v1.LostPodReplace
	if random.IntN(2) == 0 {
		lost = v1.LostPodRestartTask
	}
	replicas := int32(1 + random.IntN(4))
	return &world{
		t: t, random: random, now: now, pods: map[string]*corev1.Pod{}, succeeded: map[string]bool{},
		task: makeTask("train").replicas(replicas).minAvailable(1 + random.Int32N(replicas)).
			policy(policy).backoffLimit(int32(random.IntN(6))).with(func(t *v1.GPUTask) { t.Spec.OnLostPod = lost }).GPUTask,
		troubles: random.IntN(12),
	}
}

func (w *world) live() {
	const enough = 2000
	for step := 0; !IsFinished(w.task); step++ {
		if step == enough {
			w.t.Errorf("the task has not ended: %+v", w.task.Status)
			return
		}
		w.now = w.now.Add(time.Duration(w.random.IntN(30)) * time.Second)
		w.changePods()
		w.decide()
		w.check()
	}
	w.checkEnd()
}

func (w *world) decide() {
	list := make([]*corev1.Pod, 0, len(w.pods))
	for _, pod := range w.pods {
		list = append(list, pod)
	}
	plan, err := Decide(Input{Task: w.task, Pods: list, Lookup: lookup(), Now: w.now, Config: testConfig})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.dead = w.killed(); w.dead {
		return
	}
	if taskRestarts(w.task, &plan.Status).Count > taskRestarts(w.task, &w.task.Status).Count {
		w.succeeded = map[string]bool{}
	}
	w.task.Status = plan.Status
	for _, pod := range plan.Delete {
		if w.killed() {
			return
		}
		w.deletePod(pod.Name)
	}
	for _, pod := range plan.Create {
		if w.killed() {
			return
		}
		w.createPod(pod)
	}
}

// killed decides at random whether the controller is killed now.
func (w *world) killed() bool { return w.random.IntN(8) == 0 }

func (w *world) createPod(pod *corev1.Pod) {
	if w.pods[pod.Name] != nil {
		w.t.Errorf("Pod %s is created while it exists", pod.Name)
	}
	if w.succeeded[pod.Name] {
		w.t.Errorf("Pod %s is created although it has succeeded", pod.Name)
	}
	w.uids++
	pod.UID = types.UID(fmt.Sprint(w.uids))
	pod.CreationTimestamp = metav1.NewTime(w.now)
	pod.Status.Phase = corev1.PodPending
	w.pods[pod.Name] = pod
}

// deletePod begins a deletion: a Pod that holds a node takes its time.
func (w *world) deletePod(name string) {
	pod := w.pods[name]
	if !outcomeOf(pod).isActive() || w.random.IntN(2) == 0 {
		delete(w.pods, name)
		return
	}
	seconds := int64(30)
	pod.DeletionGracePeriodSeconds = &seconds
	pod.DeletionTimestamp = &metav1.Time{Time: w.now.Add(30 * time.Second)}
}

// changePods changes each Pod at random, or leaves it as it is.
func (w *world) changePods() {
	for _, name := range slices.Sorted(maps.Keys(w.pods)) { // in order, so that a seed repeats
		pod := w.pods[name]
		state := outcomeOf(pod)
		switch {
		case state == podTerminating && w.random.IntN(2) == 0:
			delete(w.pods, name)
		case state == podPending && w.random.IntN(2) == 0:
			pod.Spec.NodeName, pod.Status.Phase = "node", corev1.PodRunning
		case state == podRunning:
			w.changeRunning(name, pod)
		case state == podSucceeded && w.random.IntN(6) == 0 && w.isRecorded(name):
			delete(w.pods, name) // somebody cleans up
		}
	}
}

func (w *world) isRecorded(name string) bool {
	completed, err := parseIndexes(w.task.Status.CompletedIndexes)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range Replicas(w.task) {
		if PodName(w.task, i) == name {
			return completed.has(i)
		}
	}
	return false
}

func (w *world) changeRunning(name string, pod *corev1.Pod) {
	switch w.random.IntN(8) {
	case 0, 1:
		w.end(pod, corev1.PodSucceeded, 0)
		if w.isCurrent(pod) {
			w.succeeded[name] = true
		}
	case 2:
		if w.troubles--; w.troubles >= 0 {
			w.fail(pod)
		}
	case 3:
		if w.troubles--; w.troubles >= 0 {
			w.lose(name, pod)
		}
	}
}

// fail ends a Pod by its own fault. The failure must be counted unless the task has failed
// already, or it is part of one that is not counted yet.
func (w *world) fail(pod *corev1.Pod) {
	if w.task.Spec.FailurePolicy == v1.RestartTask && w.hasUncountedFailure() {
		w.end(pod, corev1.PodFailed, 1)
		return
	}
	w.end(pod, corev1.PodFailed, 1)
	if w.isCurrent(pod) {
		w.failures++
	}
}

// isCurrent reports whether the end of a Pod matters: it belongs to the current attempt.
func (w *world) isCurrent(pod *corev1.Pod) bool {
	for i := range Replicas(w.task) {
		if PodName(w.task, i) == pod.Name {
			return podAttempt(pod) == currentStart(w.task, &w.task.Status, i).attempt
		}
	}
	return false
}

func (w *world) hasUncountedFailure() bool {
	for _, pod := range w.pods {
		if outcomeOf(pod) == podFailed && w.isCurrent(pod) {
			return true
		}
	}
	return false
}

func (w *world) lose(name string, pod *corev1.Pod) {
	switch w.random.IntN(3) {
	case 0: // with its node
		delete(w.pods, name)
	case 1: // evicted
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		w.end(pod, corev1.PodFailed, 137)
	default: // deleted by somebody
		w.deletePod(name)
	}
}

func (w *world) end(pod *corev1.Pod, phase corev1.PodPhase, exitCode int32) {
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, FinishedAt: metav1.NewTime(w.now)},
	}}}
}

func (w *world) check() {
	failing := findCondition(w.task.Status.Conditions, v1.ConditionFailureTarget) != nil
	if counted := w.task.Status.Restarts; counted > w.failures {
		w.t.Errorf("%d failures were counted, %d happened", counted, w.failures)
	}
	if limit := *w.task.Spec.BackoffLimit; w.task.Status.Restarts > limit {
		w.t.Errorf("%d restarts, the limit is %d", w.task.Status.Restarts, limit)
	}
	w.checkPhase()
	w.checkAttempts(failing)
}

// checkAttempts fails the test if Pods from before and after a restart of the whole task are
// active.
func (w *world) checkAttempts(failing bool) {
	whole := taskRestarts(w.task, &w.task.Status).Count
	attempts := map[int32]bool{}
	before, after := false, false
	for _, pod := range w.pods {
		if outcomeOf(pod).isActive() {
			attempt := podAttempt(pod)
			attempts[attempt] = true
			before, after = before || attempt < whole, after || attempt >= whole
		}
	}
	if before && after || w.task.Spec.FailurePolicy == v1.RestartTask && len(attempts) > 1 {
		w.t.Errorf("Pods of several attempts are active: %v (failing: %v)", attempts, failing)
	}
}

// checkPhase compares the phase, which was just decided, with the Pods.
func (w *world) checkPhase() {
	running := 0
	for _, pod := range w.pods {
		if outcomeOf(pod) == podRunning && w.isCurrent(pod) {
			running++
		}
	}
	enough := running > 0 && running+int(w.task.Status.Succeeded) >= MinAvailable(w.task)
	claimed := w.task.Status.Phase == v1.PhaseRunning
	if failing := conditionIsTrue(w.task.Status.Conditions, v1.ConditionFailureTarget); enough != claimed && !failing && !w.dead {
		w.t.Errorf("phase %s with %d Pods running and %d succeeded of at least %d", w.task.Status.Phase, running, w.task.Status.Succeeded, MinAvailable(w.task))
	}
}

func (w *world) checkEnd() {
	switch w.task.Status.Phase {
	case v1.PhaseSucceeded:
		if w.task.Status.Restarts != w.failures {
			w.t.Errorf("%d failures were counted, %d happened", w.task.Status.Restarts, w.failures)
		}
		if len(w.succeeded) != Replicas(w.task) {
			w.t.Errorf("succeeded with the Pods %v of %d", w.succeeded, Replicas(w.task))
		}
	case v1.PhaseFailed:
		if w.failures <= *w.task.Spec.BackoffLimit {
			w.t.Errorf("failed after %d failures, the limit is %d", w.failures, *w.task.Spec.BackoffLimit)
		}
		for name, pod := range w.pods {
			if outcomeOf(pod).isActive() {
				w.t.Errorf("failed while Pod %s is active", name)
			}
		}
	default:
		w.t.Errorf("ended in phase %s", w.task.Status.Phase)
	}
}
