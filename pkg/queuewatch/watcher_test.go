// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queuewatch

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/fake"
	"falldio.github.io/gpu-controller/pkg/informer"
)

type fixture struct {
	*Watcher
	t     *testing.T
	fake  *fake.Clientset
	clock *clocktesting.FakeClock
	// refusal is what listing fails with; nil if it does not.
	refusal atomic.Pointer[apierrors.StatusError]
	mu      sync.Mutex
	changes map[string]int
}

func newFixture(t *testing.T, refusal *apierrors.StatusError, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{t: t, fake: fake.NewSimpleClientset(objects...), clock: clocktesting.NewFakeClock(time.Now()), changes: map[string]int{}}
	f.refusal.Store(refusal)
	f.fake.PrependReactor("list", "gpuqueues", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := f.refusal.Load(); err != nil {
			return true, nil, err
		}
		return false, nil, nil
	})
	f.Watcher = New(f.fake, f.clock)
	f.OnChange(func(queue string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changes[queue]++
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return f
}

func (f *fixture) eventually(what string, holds func() bool) {
	f.t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			f.t.Fatalf("it never happened that %s", what)
		}
	}
}

func (f *fixture) changesOf(queue string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes[queue]
}

func queue(name string, generation int64) *v1.GPUQueue {
	return &v1.GPUQueue{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}}
}

var resource = schema.GroupResource{Group: v1.GroupName, Resource: "gpuqueues"}

func TestQueuesAreCachedAndChangesAnnounced(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil, queue("b", 1), queue("a", 1))
	f.eventually("the queues are known", func() bool { return f.Known() && f.Tree() != nil })
	if queues := f.Queues(); len(queues) != 2 || queues[0].Name != "a" || queues[1].Name != "b" {
		t.Fatalf("queues: %v", queues)
	}
	tree, client := f.Tree(), f.fake.FalldioV1().GPUQueues()
	if f.Tree() != tree {
		t.Error("the tree is computed again though nothing has changed")
	}
	before := f.changesOf("a")
	status := queue("a", 1)
	status.Status.Running = 7
	if _, err := client.UpdateStatus(t.Context(), status, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("the status is shown", func() bool { return f.Queues()[0].Status.Running == 7 })
	if f.Tree() != tree || f.changesOf("a") != before {
		t.Error("a status changes the tree")
	}
	if _, err := client.Update(t.Context(), queue("a", 2), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("the new spec is announced", func() bool { return f.changesOf("a") > before && f.Tree() != tree })
	for _, name := range []string{"a", "b"} {
		if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.eventually("there is no queue", func() bool { return f.Tree() == nil && f.Known() })
}

func TestAKindThatIsNotServedIsLookedForAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, apierrors.NewNotFound(resource, ""), queue("a", 1))
	f.eventually("it is known that there are none", func() bool { return f.Known() })
	if f.Tree() != nil || len(f.Queues()) > 0 {
		t.Error("there are queues")
	}
	f.refusal.Store(nil)
	f.eventually("the watcher waits", f.clock.HasWaiters)
	f.clock.Step(informer.LookPeriod)
	f.eventually("the queues are known", func() bool { return f.Tree() != nil })
	if f.changesOf("") < 2 {
		t.Errorf("%d announcements", f.changesOf(""))
	}
}

func TestNothingIsKnownWhileListingIsForbidden(t *testing.T) {
	t.Parallel()
	f := newFixture(t, apierrors.NewForbidden(resource, "", nil), queue("a", 1))
	f.eventually("the watcher waits", f.clock.HasWaiters)
	if f.Known() || f.Tree() != nil || f.WaitUntilKnown(t.Context(), 10*time.Millisecond) {
		t.Error("something is known")
	}
	f.refusal.Store(nil)
	f.clock.Step(informer.RetryPeriod)
	f.eventually("the queues are known", func() bool { return f.Known() && f.Tree() != nil })
}
