// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// storm is a controller with many tasks whose Pods an API server refuses.
type storm struct {
	*fixture
	tasks []*v1.GPUTask
	// refuse is the API server's answer to the next attempt, nil if it accepts the Pod.
	refuse func(attempt int) error
	// attempts is how many Pods it was asked to create, writes how many statuses.
	attempts, statuses int
}

func newStorm(t *testing.T, tasks int, refuse func(attempt int) error) *storm {
	t.Helper()
	s := &storm{fixture: newFixture(t), refuse: refuse}
	s.kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.attempts++
		err := s.refuse(s.attempts)
		return err != nil, nil, err
	})
	s.fake.PrependReactor("update", "gputasks", func(clienttesting.Action) (bool, runtime.Object, error) {
		s.statuses++
		return false, nil, nil
	})
	for i := range tasks {
		task := newTask(fmt.Sprintf("task-%d", i), 1)
		task.UID = types.UID(task.Name)
		task.Spec.Priority = "urgent"
		s.tasks = append(s.tasks, s.store(task))
	}
	return s
}

// pass lets time go by, handling all tasks every few seconds: more often than they are queued.
func (s *storm) pass(duration time.Duration) {
	s.t.Helper()
	const pause = 5 * time.Second
	for range duration / pause {
		s.clock.Step(pause)
		s.handleAll()
	}
}

func (s *storm) handleAll() {
	s.t.Helper()
	for _, task := range s.tasks {
		_ = s.sync(task) // refusals are errors
	}
	s.observe()
}

func quotaExceeded(used int) error {
	return apierrors.NewForbidden(podResource, "task", fmt.Errorf("exceeded quota: gpus, requested: requests.falldio.com/gpu=1, used: requests.falldio.com/gpu=%d, limited: requests.falldio.com/gpu=100", used))
}

func TestTasksThatAreRefusedForTheSameCauseTryOneAtATime(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(int) error{
		"a quota whose use changes": quotaExceeded,
		"a missing PriorityClass": func(int) error {
			return apierrors.NewForbidden(podResource, "task", errors.New("no PriorityClass with name urgent was found"))
		},
		"a webhook that counts": func(attempt int) error {
			return apierrors.NewBadRequest(fmt.Sprintf("admission webhook denied request %d of Pod task-%d", attempt, attempt%20))
		},
		"a policy": func(int) error {
			return apierrors.NewForbidden(podResource, "task", errors.New("violates PodSecurity"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStorm(t, 20, refuse)
			s.pass(10 * time.Minute)
			s.attempts, s.statuses = 0, 0
			const minutes = 10
			s.pass(minutes * time.Minute)
			if s.attempts < minutes/2 || s.attempts > 2*minutes {
				t.Errorf("20 tasks made %d attempts in %d minutes, want about one a minute", s.attempts, minutes)
			}
			if s.statuses > 0 {
				t.Errorf("%d statuses were written although nothing has changed", s.statuses)
			}
		})
	}
}

func TestRefusedTasksTryAtOnceWhenTheCauseChanges(t *testing.T) {
	t.Parallel()
	quota := func(hard, used string) *corev1.ResourceQuota {
		const gpus = corev1.ResourceName("requests.falldio.com/gpu")
		return &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "gpus", Namespace: "default"},
			Status: corev1.ResourceQuotaStatus{
				Hard: corev1.ResourceList{gpus: resource.MustParse(hard)}, Used: corev1.ResourceList{gpus: resource.MustParse(used)},
			},
		}
	}
	elsewhere := quota("200", "100")
	elsewhere.Namespace = "other"
	noClass := func(int) error {
		return apierrors.NewForbidden(podResource, "task", errors.New("no PriorityClass with name urgent was found"))
	}
	tooLarge := func(int) error {
		return apierrors.NewForbidden(podResource, "task", errors.New("maximum cpu usage per Container is 1"))
	}
	webhook := func(int) error {
		return apierrors.NewInternalError(errors.New("admission webhook denied the request"))
	}
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "limits", Namespace: "default"}}
	class := func(name string) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	tests := map[string]struct {
		refuse func(int) error
		change func(*Controller)
		want   bool
	}{
		"the quota is raised":               {quotaExceeded, func(c *Controller) { c.quotaChanged(quota("101", "100"), false) }, true},
		"some of the quota is given back":   {quotaExceeded, func(c *Controller) { c.quotaChanged(quota("100", "99"), false) }, true},
		"the quota is deleted":              {quotaExceeded, func(c *Controller) { c.quotaChanged(quota("100", "100"), true) }, true},
		"the quota is still exhausted":      {quotaExceeded, func(c *Controller) { c.quotaChanged(quota("100", "100"), false) }, false},
		"the quota of another namespace":    {quotaExceeded, func(c *Controller) { c.quotaChanged(elsewhere, false) }, false},
		"the PriorityClass is created":      {noClass, func(c *Controller) { c.priorityClassChanged(class("urgent"), false) }, true},
		"another PriorityClass is created":  {noClass, func(c *Controller) { c.priorityClassChanged(class("low"), false) }, false},
		"a LimitRange changes":              {tooLarge, func(c *Controller) { c.limitRangeChanged(limits, false) }, true},
		"an admission policy changes":       {tooLarge, func(c *Controller) { c.policiesChanged("") }, true},
		"a webhook changes":                 {webhook, func(c *Controller) { c.policiesChanged("") }, true},
		"a label of the namespace changes":  {tooLarge, func(c *Controller) { c.policiesChanged("default") }, true},
		"a label of another namespace":      {tooLarge, func(c *Controller) { c.policiesChanged("other") }, false},
		"a policy, but it is the quota":     {quotaExceeded, func(c *Controller) { c.policiesChanged("") }, false},
		"a LimitRange, but it is the quota": {quotaExceeded, func(c *Controller) { c.limitRangeChanged(limits, false) }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStorm(t, 20, test.refuse)
			s.pass(10 * time.Minute)
			s.refuse = func(int) error { return nil }
			s.attempts = 0
			test.change(s.Controller)
			if test.want {
				s.clock.Step(policyLag)
			}
			for range 10 {
				s.handleAll()
			}
			if all := s.attempts == len(s.tasks); all != test.want || s.attempts > 0 != test.want {
				t.Errorf("%d of %d tasks have tried", s.attempts, len(s.tasks))
			}
		})
	}
}

// waiting is refusedTasks with a clock, and what was woken.
type waiting struct {
	*refusedTasks
	clock *clocktesting.FakePassiveClock
	woken map[cache.ObjectName]time.Duration
}

func newWaiting() *waiting {
	w := &waiting{clock: clocktesting.NewFakePassiveClock(testTime), woken: map[cache.ObjectName]time.Duration{}}
	w.refusedTasks = newRefusedTasks(w.clock, func(key cache.ObjectName, delay time.Duration) { w.woken[key] = delay })
	return w
}

func taskKey(i int) cache.ObjectName { return cache.NewObjectName("default", fmt.Sprint(i)) }

// delay returns how long a task has to wait before it tries again.
func (w *waiting) delay(key cache.ObjectName) time.Duration {
	return w.get(key, "uid").Retry.Sub(w.clock.Now())
}

// mayTry returns how many of the first tasks may try at once.
func (w *waiting) mayTry(tasks int) int {
	count := 0
	for i := range tasks {
		if w.get(taskKey(i), "uid") != nil && w.delay(taskKey(i)) <= 0 {
			count++
		}
	}
	return count
}

func TestTheTimeBetweenAttemptsDoubles(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	obstacle, why := gputask.Obstacle{Reason: gputask.ReasonQuotaExceeded}, cause{text: "quota"}
	backoff := firstRetry
	for range 10 {
		w.set(taskKey(0), "uid", obstacle, why)
		first := w.delay(taskKey(0))
		if first < backoff/2 || first > backoff {
			t.Errorf("the next attempt is after %v, the backoff is %v", first, backoff)
		}
		w.set(taskKey(0), "uid", obstacle, why) // another Pod of the same attempt
		if second := w.delay(taskKey(0)); second != first {
			t.Errorf("a second refusal of the same attempt moves the next one from %v to %v", first, second)
		}
		w.clock.SetTime(w.clock.Now().Add(first))
		backoff = min(2*backoff, lastRetry)
	}
	w.set(taskKey(0), "uid of another", obstacle, why)
	if delay := w.get(taskKey(0), "uid of another").Retry.Sub(w.clock.Now()); delay > firstRetry {
		t.Errorf("a new task of the same name waits for %v", delay)
	}
	if w.get(taskKey(0), "uid") != nil {
		t.Error("the task before has an obstacle still")
	}
}

func TestCausesThatAlternateAreNotTriedMoreOften(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	for i := range 20 {
		w.set(taskKey(0), "uid", gputask.Obstacle{}, cause{text: fmt.Sprint(i % 2)})
		w.clock.SetTime(w.clock.Now().Add(lastRetry))
	}
	w.set(taskKey(0), "uid", gputask.Obstacle{}, cause{text: "1"})
	if delay := w.delay(taskKey(0)); delay < lastRetry/2 {
		t.Errorf("the next attempt is after %v", delay)
	}
}

func TestMoreTasksTryWhileTheyAreAccepted(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	const tasks = 200
	for i := range tasks {
		w.set(taskKey(i), "uid", gputask.Obstacle{}, cause{text: "quota"})
	}
	w.clock.SetTime(w.clock.Now().Add(firstRetry))
	for _, want := range []int{1, 2, 4, 8, 16, 32, 64, 64} {
		if got := w.mayTry(tasks); got != want {
			t.Fatalf("%d tasks may try, want %d", got, want)
		}
		for i, passed := 0, 0; i < tasks && passed < max(1, want/2); i++ { // half of them do
			if task := w.get(taskKey(i), "uid"); task != nil && w.delay(taskKey(i)) <= 0 {
				w.pass(taskKey(i))
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
		w.set(taskKey(i), "uid", gputask.Obstacle{}, cause{text: "quota"})
	}
	w.clock.SetTime(w.clock.Now().Add(firstRetry))
	w.pass(taskKey(0))
	w.pass(taskKey(1))
	if got := w.mayTry(tasks); got != 4 {
		t.Fatalf("%d tasks may try, want 4", got)
	}
	w.set(taskKey(2), "uid", gputask.Obstacle{}, cause{text: "quota"})
	if got := w.mayTry(tasks); got != 0 {
		t.Errorf("%d tasks may try at once after a refusal", got)
	}
	w.clock.SetTime(w.clock.Now().Add(firstRetry))
	if got := w.mayTry(tasks); got != 1 {
		t.Errorf("%d tasks may try after the pause, want 1", got)
	}
}

func TestATaskThatLeavesLetsTheNextOneTry(t *testing.T) {
	t.Parallel()
	w := newWaiting()
	for i := range 3 {
		w.set(taskKey(i), "uid", gputask.Obstacle{}, cause{text: "quota"})
	}
	w.clock.SetTime(w.clock.Now().Add(firstRetry))
	for left := 3; left > 0; left-- {
		if got := w.mayTry(3); got != 1 {
			t.Fatalf("%d of %d tasks may try, want 1", got, left)
		}
		for i := range 3 {
			if w.get(taskKey(i), "uid") != nil && w.delay(taskKey(i)) <= 0 {
				if delay, woken := w.woken[taskKey(i)]; !woken || delay > firstRetry {
					t.Errorf("task %d was not woken", i)
				}
				w.clear(taskKey(i))
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
		w.set(taskKey(i), "uid", gputask.Obstacle{}, cause{text: "quota"})
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
	refuse := func() { w.set(taskKey(0), "uid", gputask.Obstacle{}, cause{text: "quota"}) }
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
	if delay := w.delay(taskKey(0)); delay > firstRetry {
		t.Errorf("the next attempt is due in %v, want at most %v", delay, firstRetry)
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
		if w.get(taskKey(0), "uid") == nil || w.delay(taskKey(0)) <= 0 {
			attempts++
			w.set(taskKey(0), "uid", gputask.Obstacle{}, cause{text: "quota"})
		}
		w.changed(func(*cause) bool { return true }, 0)
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	if attempts > 2*minutes {
		t.Errorf("%d attempts in %d minutes", attempts, minutes)
	}
}
