// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// savesWork is a change of a Pod that wants a minute to save its work.
func savesWork(p *corev1.Pod) {
	p.Annotations = map[string]string{v1.AnnotationCheckpointTimeout: "60"}
	p.Status.Phase = corev1.PodRunning
}

// preempted starts the preemption of a Pod that saves its work, and returns what the API server is
// asked to do, and a channel that is closed at its end.
func preempted(t *testing.T) (f *fixture, victim, preemptor *corev1.Pod, actions <-chan string, done <-chan struct{}) {
	t.Helper()
	victim = at(pod("low", 2, prioritized(1)), "a", 0, 1)
	savesWork(victim)
	preemptor = pod("high", 2, prioritized(5))
	f = newFixture(t, victim, preemptor)
	f.addNode("a", "l", 2)
	f.comes(victim)
	f.comes(preemptor)
	requests, ended := make(chan string, 10), make(chan struct{})
	f.handle.client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		requests <- action.GetVerb()
		return false, nil, nil
	})
	go func() {
		defer close(ended)
		f.evictor.Evict(t.Context(), "group", preemptor, []*corev1.Pod{victim}, nil)
	}()
	return f, victim, preemptor, requests, ended
}

func expect(t *testing.T, actions <-chan string, want string) {
	t.Helper()
	select {
	case got := <-actions:
		if got != want {
			t.Errorf("the next request is to %s, want %s", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("there is no request to %s", want)
	}
}

// stepUntil advances the clock while the code under test waits for it, until something happened.
func (f *fixture) stepUntil(done <-chan struct{}) {
	f.t.Helper()
	err := wait.PollUntilContextTimeout(f.t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		select {
		case <-done:
			return true, nil
		default:
			if f.clock.HasWaiters() {
				f.clock.Step(time.Second)
			}
			return false, nil
		}
	})
	if err != nil {
		f.t.Errorf("the preemption has not ended: %v", err)
	}
}

// cached is the state of a Pod in the informer's cache.
func (f *fixture) cached(pod *corev1.Pod) {
	f.t.Helper()
	if err := f.handle.informers.Core().V1().Pods().Informer().GetIndexer().Update(pod); err != nil {
		f.t.Fatal(err)
	}
}

func TestAVictimIsAskedToSaveItsWorkAndHasTheTimeForIt(t *testing.T) {
	t.Parallel()
	f, _, _, actions, done := preempted(t)
	begin := f.clock.Now()
	expect(t, actions, "patch") // the request
	f.stepUntil(done)
	expect(t, actions, "patch") // the condition DisruptionTarget
	expect(t, actions, "delete")
	if took := f.clock.Since(begin); took < time.Minute || took > time.Minute+2*time.Second {
		t.Errorf("the victim had %v, want a minute", took)
	}
}

func TestAVictimThatHasSavedItsWorkLeavesAtOnce(t *testing.T) {
	t.Parallel()
	f, victim, _, actions, done := preempted(t)
	begin := f.clock.Now()
	expect(t, actions, "patch")
	saved := victim.DeepCopy()
	saved.Annotations[v1.AnnotationCheckpointRequested] = begin.Format(time.RFC3339)
	saved.Annotations[v1.AnnotationLastCheckpoint] = begin.Add(time.Second).Format(time.RFC3339)
	f.cached(saved)
	f.stepUntil(done)
	if took := f.clock.Since(begin); took > 10*time.Second {
		t.Errorf("the victim was deleted after %v", took)
	}
}

func noMore(t *testing.T, actions <-chan string) {
	t.Helper()
	select {
	case request := <-actions:
		t.Errorf("there is a request to %s", request)
	default:
	}
}

func TestWhoEndsWhileItSavesItsWorkIsNoVictim(t *testing.T) {
	t.Parallel()
	f, victim, _, actions, done := preempted(t)
	f.registry.MarkTerminating([]types.UID{victim.UID}, true)
	expect(t, actions, "patch")
	<-f.handle.recorder.Events // that it is asked to save its work
	f.goes(victim)             // the informer excludes Pods that have ended
	f.stepUntil(done)
	noMore(t, actions)
	if len(f.handle.recorder.Events) > 0 {
		t.Errorf("its owner is told: %s", <-f.handle.recorder.Events)
	}
	if f.registry.Terminating(victim.UID) {
		t.Error("it still counts as one that has to leave")
	}
}

// The cache shows a version of the victim in which it runs, and it has ended in a later one.
func TestWhoEndsInTheLastMomentIsNotDeleted(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"patch", "delete"} {
		t.Run("before the "+verb, func(t *testing.T) {
			t.Parallel()
			victim, preemptor := at(pod("low", 2, prioritized(1)), "a", 0, 1), pod("high", 2, prioritized(5))
			f := newFixture(t, victim, preemptor)
			f.addNode("a", "l", 2)
			f.comes(victim, preemptor)
			f.handle.client.PrependReactor(verb, "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				ended := victim.DeepCopy()
				ended.Status.Phase = corev1.PodSucceeded
				if err := f.handle.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), ended, victim.Namespace); err != nil {
					t.Error(err)
				}
				return true, nil, apierrors.NewConflict(corev1.Resource("pods"), victim.Name, errLater)
			})
			f.evictor.Evict(t.Context(), "group", preemptor, []*corev1.Pod{victim}, nil)
			if _, err := f.handle.client.CoreV1().Pods(victim.Namespace).Get(t.Context(), victim.Name, metav1.GetOptions{}); err != nil {
				t.Errorf("it is not there any more: %v", err)
			}
			if len(f.handle.recorder.Events) > 0 {
				t.Errorf("its owner is told: %s", <-f.handle.recorder.Events)
			}
		})
	}
}

// While the victims save their work, a Pod of the same budget fails: a gang is stopped as a whole, or not at all.
func TestBudgetsAreAskedAgainWhenVictimsAreStopped(t *testing.T) {
	t.Parallel()
	for allowed, stopped := range map[int32]int{2: 2, 1: 0, 0: 0} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			t.Parallel()
			pods := gang("low", 2, 2, prioritized(1), app("web"), savesWork)
			first, second := at(pods[0], "a", 0), at(pods[1], "a", 1)
			preemptor := pod("high", 2, prioritized(5))
			f := newFixture(t, first, second, preemptor)
			f.addNode("a", "l", 2)
			f.budget("web", 2)
			f.comes(first, second, preemptor)
			f.decide(preemptor)
			if got := f.Preempt(t.Context(), preemptor); got != "2 Pods of a lower priority are preempted" {
				t.Fatalf("the message is %q", got)
			}
			f.wantKept("while they save their work", "high: a")
			f.budget("web", allowed)
			f.handle.takeActivated()
			f.stepUntil(f.ended("high"))
			deleted := 0
			for _, action := range f.handle.client.Actions() {
				if action.GetVerb() == "delete" {
					deleted++
				}
			}
			if deleted != stopped {
				t.Errorf("%d Pods are stopped, want %d", deleted, stopped)
			}
			if stopped > 0 {
				return
			}
			f.wantKept("when all of them stay")
			if f.registry.Terminating(first.UID) || f.registry.Terminating(second.UID) {
				t.Error("a Pod that stays counts as one that leaves")
			}
			if activated := f.handle.takeActivated(); !slices.Contains(activated, "high") {
				t.Errorf("tried again: %v", activated)
			}
		})
	}
}

// ended returns a channel that is closed when the victims of a group are not being stopped any more.
func (f *fixture) ended(group string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = wait.PollUntilContextCancel(f.t.Context(), time.Millisecond, true, func(context.Context) (bool, error) {
			return !f.evictor.UnderWay(group), nil
		})
	}()
	return done
}

func TestAVictimStaysIfThePreemptorHasFoundAnotherPlaceMeanwhile(t *testing.T) {
	t.Parallel()
	f, _, preemptor, actions, done := preempted(t)
	expect(t, actions, "patch")
	f.cached(at(preemptor, "b", 0, 1))
	f.stepUntil(done)
	noMore(t, actions)
	if f.registry.Terminating("low") {
		t.Error("the victim still counts as terminating")
	}
}
