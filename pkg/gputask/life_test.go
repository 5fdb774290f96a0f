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
	"k8s.io/apimachinery/pkg/api/meta"
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
	for seed := range uint64(4000) {
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
	// queued is true if a queueing system decides whether the task may run; admission is what it says.
	queued    bool
	admission *Admission
	// changes is how often the task was changed.
	changes int
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
	w := &world{
		t: t, random: random, now: now, pods: map[string]*corev1.Pod{}, succeeded: map[string]bool{},
		task:     makeTask("train").policy(policy).backoffLimit(int32(random.IntN(6))).with(func(t *v1.GPUTask) { t.Spec.OnLostPod = lost }).GPUTask,
		troubles: random.IntN(12), queued: random.IntN(2) == 0,
	}
	if w.queued {
		w.admission = notAdmitted()
	}
	[]func(){w.becomeGang, w.becomeElastic, w.becomeArray, w.becomeRoles}[random.IntN(4)]()
	if random.IntN(3) == 0 {
		w.task.Spec.SuccessPolicy = &v1.SuccessPolicy{Rules: []v1.SuccessRule{{SucceededCount: new(1 + random.Int32N(3))}}}
	}
	return w
}

func (w *world) becomeGang() {
	replicas := 1 + w.random.Int32N(4)
	w.task.Spec.Replicas, w.task.Spec.MinAvailable = &replicas, new(1+w.random.Int32N(replicas))
}

func (w *world) becomeElastic() {
	w.becomeGang()
	w.task.Spec.MaxReplicas = new(*w.task.Spec.Replicas + w.random.Int32N(3))
}

func (w *world) becomeArray() {
	w.task.Spec.Completions, w.task.Spec.Replicas = new(1+w.random.Int32N(8)), new(1+w.random.Int32N(3))
	if w.random.IntN(2) == 0 {
		w.task.Spec.BackoffLimitPerIndex = new(w.random.Int32N(3))
	}
}

func (w *world) becomeRoles() {
	w.task.Spec.Roles = []v1.Role{
		{Name: "actor", Replicas: new(1 + w.random.Int32N(3)), GPUAmount: "0"},
		{Name: "learner"},
	}
}

// scale changes the number of Pods at random, if that is allowed.
func (w *world) scale() {
	switch {
	case w.random.IntN(10) > 0:
	case w.task.Spec.MaxReplicas != nil:
		least := *w.task.Spec.MinAvailable
		w.task.Spec.Replicas = new(least + w.random.Int32N(*w.task.Spec.MaxReplicas-least+1))
	case IsArray(w.task):
		w.task.Spec.Replicas = new(1 + w.random.Int32N(3))
	}
}

// changeAdmission has a queueing system admit the task, at first or again, or evict it, at random.
// What it has admitted it does not change.
func (w *world) changeAdmission() {
	switch {
	case !w.queued || w.random.IntN(10) > 0:
	case w.admission.Admitted:
		w.admission = notAdmitted()
	case w.active("") == 0: // as Kueue, which waits until the quota was given back
		w.admission = &Admission{Admitted: true, Grants: map[string]Grant{}}
		for _, role := range Roles(w.task) {
			most, least := role.Count(), MinAvailable(w.task)
			if len(w.task.Spec.Roles) > 0 {
				least = most
			}
			w.admission.Grants[role.Name] = Grant{Pods: least + w.random.IntN(most-least+1)}
		}
	}
}

// changeTemplate suspends, changes and resumes the task at random, so fast that nobody sees it suspended.
// Failures of the Pods before that nobody has counted yet don't matter any more.
func (w *world) changeTemplate() {
	if w.random.IntN(20) > 0 || meta.FindStatusCondition(w.task.Status.Conditions, v1.ConditionFailureTarget) != nil {
		return
	}
	uncounted := int32(0)
	for _, pod := range w.pods {
		if index, _ := w.memberOf(pod.Name); outcomeOf(pod) == podFailed && w.isCurrent(pod) && !w.failedIndexes().has(index) {
			uncounted++
		}
	}
	if w.restartsAsAWhole() {
		uncounted = min(uncounted, 1)
	}
	w.failures -= uncounted
	w.changes++
	w.task.Spec.Template = &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"change": fmt.Sprint(w.changes)}}}
}

// checkTemplate fails the test if a new Pod does not follow the task, or one that does not is still active.
func (w *world) checkTemplate(created *corev1.Pod) {
	hash := TemplateHash(w.task)
	for _, pod := range w.pods {
		if outcomeOf(pod).isActive() && pod.Labels[v1.LabelTemplateHash] != hash {
			w.t.Errorf("Pod %s is created beside %s, which was made before the task was changed", created.Name, pod.Name)
		}
	}
	if created.Labels[v1.LabelTemplateHash] != hash {
		w.t.Errorf("Pod %s does not follow the task", created.Name)
	}
}

// checkAdmission fails the test if a new Pod is one that was not admitted.
func (w *world) checkAdmission(created *corev1.Pod) {
	if !w.queued {
		return
	}
	role := created.Labels[v1.LabelRole]
	if !w.admission.Admitted || w.active(role) >= w.admission.Grants[role].Pods {
		w.t.Errorf("Pod %s is created beside %d others, admitted is %+v", created.Name, w.active(role), w.admission)
	}
}

// active returns how many Pods of a role hold a node or may come to hold one; of all, without a name.
func (w *world) active(role string) int {
	count := 0
	for _, pod := range w.pods {
		if outcomeOf(pod).isActive() && (role == "" || pod.Labels[v1.LabelRole] == role) {
			count++
		}
	}
	return count
}

// memberOf returns the index of a Pod's member, be it one that an elastic gang may get back.
func (w *world) memberOf(name string) (index int, found bool) {
	largest := w.task.DeepCopy()
	if largest.Spec.MaxReplicas != nil {
		largest.Spec.Replicas = largest.Spec.MaxReplicas
	}
	return memberIndex(largest, Roles(largest), name)
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
		w.scale()
		w.changeAdmission()
		w.changeTemplate()
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
	plan, err := Decide(Input{Task: w.task, Pods: list, Lookup: lookup(), Now: w.now, Config: testConfig, Admission: w.admission})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.dead = w.killed(); w.dead {
		return
	}
	if taskRestarts(w.task, &plan.Status).Count > taskRestarts(w.task, &w.task.Status).Count {
		w.succeeded = map[string]bool{}
	}
	pods := created(&plan)
	w.task.Status = plan.Status
	for _, pod := range plan.Delete {
		if w.killed() {
			return
		}
		w.deletePod(pod.Name)
	}
	for _, pod := range pods {
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
	w.checkParallelism(pod)
	w.checkAdmission(pod)
	w.checkTemplate(pod)
	w.uids++
	pod.UID = types.UID(fmt.Sprint(w.uids))
	pod.CreationTimestamp = metav1.NewTime(w.now)
	pod.Status.Phase = corev1.PodPending
	w.pods[pod.Name] = pod
}

// checkParallelism fails the test if a new Pod of an array is one too many.
func (w *world) checkParallelism(created *corev1.Pod) {
	if !IsArray(w.task) {
		return
	}
	active := 0
	for _, pod := range w.pods {
		if outcomeOf(pod).isActive() {
			active++
		}
	}
	if active >= Replicas(w.task) {
		w.t.Errorf("Pod %s is created beside %d others of the array, %d may run", created.Name, active, Replicas(w.task))
	}
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
	index, found := w.memberOf(name)
	return found && completed.has(index)
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
	if w.restartsAsAWhole() && w.hasUncountedFailure() {
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
	index, found := w.memberOf(pod.Name)
	return found && podAttempt(pod) == currentStart(w.task, &w.task.Status, index).attempt && (outcomeOf(pod) == podSucceeded || w.isMadeNow(pod))
}

// isMadeNow reports whether a Pod was made since the task was changed.
func (w *world) isMadeNow(pod *corev1.Pod) bool {
	return pod.Labels[v1.LabelTemplateHash] == TemplateHash(w.task)
}

func (w *world) restartsAsAWhole() bool {
	return w.task.Spec.FailurePolicy == v1.RestartTask && !IsArray(w.task)
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
	failing := meta.FindStatusCondition(w.task.Status.Conditions, v1.ConditionFailureTarget) != nil
	if counted := w.counted(); counted > w.failures {
		w.t.Errorf("%d failures were counted, %d happened", counted, w.failures)
	}
	if limit := *w.task.Spec.BackoffLimit; w.task.Status.Restarts > limit && w.task.Spec.BackoffLimitPerIndex == nil {
		w.t.Errorf("%d restarts, the limit is %d", w.task.Status.Restarts, limit)
	}
	w.checkPhase()
	w.checkAttempts(failing)
}

// counted returns how many failures the status tells of.
func (w *world) counted() int32 {
	return w.task.Status.Restarts + int32(len(w.failedIndexes()))
}

func (w *world) failedIndexes() indexSet {
	failed, err := parseIndexes(w.task.Status.FailedIndexes)
	if err != nil {
		w.t.Fatal(err)
	}
	return failed
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
	if before && after || w.restartsAsAWhole() && len(attempts) > 1 {
		w.t.Errorf("Pods of several attempts are active: %v (failing: %v)", attempts, failing)
	}
}

// checkPhase compares the phase, which was just decided, with the Pods.
func (w *world) checkPhase() {
	running := 0
	for _, pod := range w.pods {
		if index, _ := w.memberOf(pod.Name); outcomeOf(pod) == podRunning && w.isCurrent(pod) && index < Total(w.task) {
			running++
		}
	}
	switch {
	case int(w.task.Status.Succeeded) == Total(w.task), w.task.Spec.SuccessPolicy != nil:
		return // it waits for the last Pods to stop
	case w.isStopping():
		return // the phase changes when no Pod is left
	case running == 0 && IsArray(w.task):
		return // its next Pods may be starting
	}
	enough := running > 0 && running+int(w.task.Status.Succeeded) >= MinAvailable(w.task)
	claimed := w.task.Status.Phase == v1.PhaseRunning
	if failing := meta.IsStatusConditionTrue(w.task.Status.Conditions, v1.ConditionFailureTarget); enough != claimed && !failing && !w.dead {
		w.t.Errorf("phase %s with %d Pods running and %d succeeded of at least %d", w.task.Status.Phase, running, w.task.Status.Succeeded, MinAvailable(w.task))
	}
}

// isStopping reports whether the Pods stop since there is no quota for them, or since the task was changed.
func (w *world) isStopping() bool {
	return w.queued && !w.admission.Admitted || meta.IsStatusConditionTrue(w.task.Status.Conditions, v1.ConditionSuspended)
}

func (w *world) checkEnd() {
	switch w.task.Status.Phase {
	case v1.PhaseSucceeded:
		if w.task.Spec.SuccessPolicy != nil {
			return // what happens once enough Pods have succeeded does not count
		}
		if w.counted() != w.failures && w.task.Spec.MaxReplicas == nil { // those of Pods that are scaled away do not count
			w.t.Errorf("%d failures were counted, %d happened", w.counted(), w.failures)
		}
		for i := range Total(w.task) {
			if !w.succeeded[PodName(w.task, i)] {
				w.t.Errorf("succeeded without Pod %s", PodName(w.task, i))
			}
		}
	case v1.PhaseFailed:
		if w.failures <= *w.task.Spec.BackoffLimit && len(w.failedIndexes()) == 0 {
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
