// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	f.cached(victim)
	f.cached(preemptor)
	requests, ended := make(chan string, 10), make(chan struct{})
	f.handle.client.PrependReactor("*", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		requests <- action.GetVerb()
		return false, nil, nil
	})
	go func() {
		defer close(ended)
		f.evictVictims(t.Context(), "group", preemptor, []*corev1.Pod{victim}, nil)
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
				f.clock.Step(checkpointPoll)
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
	if took := f.clock.Since(begin); took < time.Minute || took > time.Minute+2*checkpointPoll {
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
	if took := f.clock.Since(begin); took > 10*checkpointPoll {
		t.Errorf("the victim was deleted after %v", took)
	}
}

func TestAVictimStaysIfThePreemptorHasFoundAnotherPlaceMeanwhile(t *testing.T) {
	t.Parallel()
	f, _, preemptor, actions, done := preempted(t)
	expect(t, actions, "patch")
	f.cached(at(preemptor, "b", 0, 1))
	f.stepUntil(done)
	select {
	case request := <-actions:
		t.Errorf("there is a request to %s", request)
	default:
	}
	if f.registry.Terminating("low") {
		t.Error("the victim still counts as terminating")
	}
}
