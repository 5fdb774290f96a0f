// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	q := &fairQueue{byNamespace: map[string][]cache.ObjectName{}}
	for _, task := range []string{"a/1", "a/2", "a/3", "b/1", "c/1", "c/2"} {
		namespace, name, _ := strings.Cut(task, "/")
		q.Push(cache.NewObjectName(namespace, name))
	}
	var order []string
	for q.Len() > 0 {
		order = append(order, q.Pop().String())
		if len(order) == 2 {
			q.Push(cache.NewObjectName("d", "1"))
		}
	}
	if diff := cmp.Diff([]string{"a/1", "b/1", "c/1", "a/2", "d/1", "c/2", "a/3"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if len(q.byNamespace) != 0 || len(q.next) != 0 {
		t.Errorf("the empty queue keeps %v and %v", q.byNamespace, q.next)
	}
}

func TestATurnIsOverWhenOthersWait(t *testing.T) {
	t.Parallel()
	now, waiting := testTime, 0
	newTurn := func() *turn {
		return &turn{lanes: make(chan struct{}), othersWait: func() bool { return waiting > 0 }, now: func() time.Time { return now }, ends: now.Add(turnLength)}
	}
	for _, test := range []struct {
		waiting   int
		slow      time.Duration
		wantCalls int
	}{
		{0, time.Second, 5}, {1, 0, 5}, {1, time.Second, 1}, {1, turnLength / 2, 3},
	} {
		turn, calls := newTurn(), 0
		waiting = test.waiting
		err := inParallel(turn, make([]int, 5), func(int) error {
			calls++
			now = now.Add(test.slow)
			return nil
		})
		if err != nil || calls != test.wantCalls || turn.unfinished != (test.wantCalls < 5) {
			t.Errorf("%d others wait and a write takes %v: %d writes, unfinished %v, error %v", test.waiting, test.slow, calls, turn.unfinished, err)
		}
		if _ = inParallel(turn, []int{0}, func(int) error { calls++; return nil }); turn.unfinished && calls != test.wantCalls {
			t.Error("the next writes of a turn that is over were made")
		}
	}
}

// slowServer is an API server that makes 1000 writes in a second, and shows Pods to the controller at once.
func (f *fixture) slowServer(created func(pod *corev1.Pod)) {
	f.t.Helper()
	slots := make(chan struct{}, 20)
	f.answerPods(func(request *http.Request) (int, runtime.Object) {
		slots <- struct{}{}
		time.Sleep(20 * time.Millisecond)
		<-slots
		body, err := io.ReadAll(request.Body)
		object, err2 := runtime.Decode(scheme.Codecs.UniversalDeserializer(), body)
		pod, ok := object.(*corev1.Pod)
		if !ok {
			f.t.Errorf("not a Pod: %v, %v", err, err2)
			return http.StatusInternalServerError, &metav1.Status{}
		}
		if err := f.podIndex.Add(pod); err != nil {
			f.t.Error(err)
		}
		f.podChanged(pod)
		created(pod)
		return http.StatusCreated, pod
	})
}

// Eight gangs of another tenant, as many as there are workers, and eight more that wait for one.
func TestATaskDoesNotWaitForTheGangsOfAnotherTenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	deps := *f.dependencies
	deps.clock = clock.RealClock{}
	f.Controller = newController(&deps, newOptions())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var gangPods atomic.Int32
	first := make(chan time.Time, 1)
	f.slowServer(func(pod *corev1.Pod) {
		if pod.Namespace == "quick" {
			first <- time.Now()
			return
		}
		gangPods.Add(1)
	})
	for i := range 16 {
		gang := newTask(fmt.Sprintf("gang-%d", i), 4096)
		gang.Namespace, gang.UID, gang.Spec.Rendezvous = "greedy", types.UID(gang.Name), v1.RendezvousNone
		f.store(gang)
	}
	go func() {
		f.Run(ctx)
		close(ended)
	}()
	defer func() {
		stop()
		<-ended
	}()
	f.eventually(func() bool { return gangPods.Load() > 500 })
	var longest time.Duration
	for i := range 10 {
		task := newTask(fmt.Sprintf("task-%d", i), 1)
		task.Namespace, task.UID = "quick", types.UID(task.Name)
		f.store(task)
		begin := time.Now()
		f.enqueue(keyOf(task))
		select {
		case at := <-first:
			longest = max(longest, at.Sub(begin))
		case <-time.After(time.Minute):
			t.Fatal("its Pod was not created in a minute")
		}
	}
	if longest > time.Second {
		t.Errorf("a task got its Pod after %v", longest)
	}
	t.Logf("of ten tasks, the one that waited longest got its Pod after %v", longest)
	at := gangPods.Load()
	f.eventually(func() bool { return gangPods.Load() > at+1000 }) // the gangs go on
}

// eventually waits until a condition holds.
func (f *fixture) eventually(holds func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatal("not in a minute")
		}
	}
}
