// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package refusals

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

var (
	testTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	pods     = schema.GroupResource{Resource: "pods"}
)

func newTask(name string, replicas int32) *v1.GPUTask {
	return &v1.GPUTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "uid"},
		Spec:       v1.GPUTaskSpec{GPUAmount: "1", Replicas: &replicas},
	}
}

// newPod returns the first Pod of a task.
func newPod(t *testing.T, task *v1.GPUTask) *corev1.Pod {
	t.Helper()
	pod, err := gputask.NewPod(task, 0, 0, gputask.PodDefaults{Image: "cuda"})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// waiting is Tasks with a clock, and what was woken.
type waiting struct {
	*Tasks
	clock *clocktesting.FakePassiveClock
	woken map[cache.ObjectName]time.Duration
}

func newWaiting() *waiting {
	w := &waiting{clock: clocktesting.NewFakePassiveClock(testTime), woken: map[cache.ObjectName]time.Duration{}}
	w.Tasks = New(w.clock, func(key cache.ObjectName, delay time.Duration) { w.woken[key] = delay })
	return w
}

func taskKey(i int) cache.ObjectName { return cache.NewObjectName("default", fmt.Sprint(i)) }

// of returns the refusal of a task by its key.
func (w *waiting) of(key cache.ObjectName) *gputask.Refusal {
	return w.Of(newTask(key.Name, 1))
}

func keyOf(task *v1.GPUTask) cache.ObjectName { return cache.MetaObjectToName(task) }

// delay returns how long a task has to wait before it tries again.
func (w *waiting) delay(key cache.ObjectName) time.Duration {
	return w.of(key).Retry.Sub(w.clock.Now())
}

// mayTry returns how many of the first tasks may try at once.
func (w *waiting) mayTry(tasks int) int {
	count := 0
	for i := range tasks {
		if w.of(taskKey(i)) != nil && w.delay(taskKey(i)) <= 0 {
			count++
		}
	}
	return count
}

func TestTheTimeBetweenAttemptsDoubles(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	refusal, why := gputask.Refusal{Reason: gputask.ReasonQuotaExceeded}, cause{text: "quota"}
	backoff := FirstRetry
	for range 10 {
		w.add(taskKey(0), "uid", refusal, why)
		first := w.delay(taskKey(0))
		if first < backoff/2 || first > backoff {
			t.Errorf("the next attempt is after %v, the backoff is %v", first, backoff)
		}
		w.add(taskKey(0), "uid", refusal, why) // another Pod of the same attempt
		if second := w.delay(taskKey(0)); second != first {
			t.Errorf("a second refusal of the same attempt moves the next one from %v to %v", first, second)
		}
		w.clock.SetTime(w.clock.Now().Add(first))
		backoff = min(2*backoff, lastRetry)
	}
	w.add(taskKey(0), "uid of another", refusal, why)
	again := newTask("0", 1)
	again.UID = "uid of another"
	if delay := w.Of(again).Retry.Sub(w.clock.Now()); delay > FirstRetry {
		t.Errorf("a new task of the same name waits for %v", delay)
	}
	if w.of(taskKey(0)) != nil {
		t.Error("the task before is still refused")
	}
}

func TestCausesThatAlternateAreNotTriedMoreOften(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	for i := range 20 {
		w.add(taskKey(0), "uid", gputask.Refusal{}, cause{text: fmt.Sprint(i % 2)})
		w.clock.SetTime(w.clock.Now().Add(lastRetry))
	}
	w.add(taskKey(0), "uid", gputask.Refusal{}, cause{text: "1"})
	if delay := w.delay(taskKey(0)); delay < lastRetry/2 {
		t.Errorf("the next attempt is after %v", delay)
	}
}

func TestMoreTasksTryWhileTheyAreAccepted(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	const tasks = 200
	for i := range tasks {
		w.add(taskKey(i), "uid", gputask.Refusal{}, cause{text: "quota"})
	}
	w.clock.SetTime(w.clock.Now().Add(FirstRetry))
	for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 64} {
		if got := w.mayTry(tasks); got != want {
			t.Fatalf("%d tasks may try, want %d", got, want)
		}
		for i, passed := 0, 0; i < tasks && passed < max(1, want/2); i++ { // half of them do
			if task := w.of(taskKey(i)); task != nil && w.delay(taskKey(i)) <= 0 {
				w.Accepted(taskKey(i))
				passed++
				if want < 8 || w.mayTry(tasks) >= min(2*want, maxTrying) {
					break
				}
			}
		}
	}
}

func TestOneRefusalStopsTheOthers(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	const tasks = 20
	for i := range tasks {
		w.add(taskKey(i), "uid", gputask.Refusal{}, cause{text: "quota"})
	}
	w.clock.SetTime(w.clock.Now().Add(FirstRetry))
	w.Accepted(taskKey(0))
	w.Accepted(taskKey(1))
	if got := w.mayTry(tasks); got != 4 {
		t.Fatalf("%d tasks may try, want 4", got)
	}
	w.add(taskKey(2), "uid", gputask.Refusal{}, cause{text: "quota"})
	if got := w.mayTry(tasks); got != 0 {
		t.Errorf("%d tasks may try at once after a refusal", got)
	}
	w.clock.SetTime(w.clock.Now().Add(FirstRetry))
	if got := w.mayTry(tasks); got != 1 {
		t.Errorf("%d tasks may try after the pause, want 1", got)
	}
}

func TestATaskThatLeavesLetsTheNextOneTry(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	for i := range 3 {
		w.add(taskKey(i), "uid", gputask.Refusal{}, cause{text: "quota"})
	}
	w.clock.SetTime(w.clock.Now().Add(FirstRetry))
	for left := 3; left > 0; left-- {
		if got := w.mayTry(3); got != 1 {
			t.Fatalf("%d of %d tasks may try, want 1", got, left)
		}
		for i := range 3 {
			if w.of(taskKey(i)) != nil && w.delay(taskKey(i)) <= 0 {
				if delay, woken := w.woken[taskKey(i)]; !woken || delay > FirstRetry {
					t.Errorf("task %d was not woken", i)
				}
				w.Forget(taskKey(i))
				break
			}
		}
	}
	if len(w.byCause) > 0 || len(w.byTask) > 0 {
		t.Errorf("left: %v %v", w.byCause, w.byTask)
	}
}

// TestATaskThatNeverTriesDoesNotHoldUpTheOthers: it may be waiting for something else.
func TestATaskThatNeverTriesDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	for i := range 3 {
		w.add(taskKey(i), "uid", gputask.Refusal{}, cause{text: "quota"})
	}
	w.clock.SetTime(w.clock.Now().Add(queuedRetry))
	if got := w.mayTry(3); got != 3 {
		t.Errorf("%d tasks may try, want all", got)
	}
}

// The API server may notice a change of the cause later than the controller.
func TestAnAttemptThatComesTooEarlyAfterAChangeIsSoonFollowedByAnother(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	refuse := func() { w.add(taskKey(0), "uid", gputask.Refusal{}, cause{text: "quota"}) }
	for range 10 {
		refuse()
		w.clock.SetTime(w.clock.Now().Add(w.delay(taskKey(0))))
	}
	refuse()
	if delay := w.delay(taskKey(0)); delay < lastRetry/2 {
		t.Fatalf("the next attempt is due in %v: this proves nothing", delay)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	w.changed(func(*cause) bool { return true }, 0)
	refuse()
	if delay := w.delay(taskKey(0)); delay > FirstRetry {
		t.Errorf("the next attempt is due in %v, want at most %v", delay, FirstRetry)
	}
}

// TestAnAttemptThatCausesAChangeDoesNotWakeItself: a gang that exceeds a quota withdraws its Pods,
// which changes the quota.
func TestAnAttemptThatCausesAChangeDoesNotWakeItself(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	attempts := 0
	const minutes = 30
	for range minutes * 60 {
		if w.of(taskKey(0)) == nil || w.delay(taskKey(0)) <= 0 {
			attempts++
			w.add(taskKey(0), "uid", gputask.Refusal{}, cause{text: "quota"})
		}
		w.changed(func(*cause) bool { return true }, 0)
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	if attempts > 2*minutes {
		t.Errorf("%d attempts in %d minutes", attempts, minutes)
	}
}

func TestRefusedTasksThatHaveLeftAreNotKept(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	for i := range 20000 {
		w.add(taskKey(i), "uid", gputask.Refusal{}, cause{reason: "all the same"})
		if i >= 10 { // these stay
			w.Forget(taskKey(i))
		}
	}
	for _, group := range w.byCause {
		if length := len(group.queue) + len(group.trying); group.size != 10 || length < 10 || length > 100 {
			t.Errorf("%d tasks are in the group, %d in its queue, want 10 and less than 100", group.size, length)
		}
	}
}
