// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package replaced

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// recorder writes down what an informer reports.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

func uidOf(object any) types.UID {
	if unknown, missed := object.(cache.DeletedFinalStateUnknown); missed {
		object = unknown.Obj
	}
	return object.(*corev1.Pod).UID
}

// TestAPodThatTookTheNameOfAnotherIsAnotherOne: while the watch was broken, Pod a was deleted and another
// one of its name created. Without the package, the informer reports an update.
func TestAPodThatTookTheNameOfAnotherIsAnotherOne(t *testing.T) {
	t.Parallel()
	pod := func(uid types.UID, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: uid, ResourceVersion: version}}
	}
	client := fake.NewClientset()
	var mu sync.Mutex
	now, watches := pod("first", "1"), make(chan *watch.FakeWatcher, 10)
	client.PrependReactor("list", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		return true, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: now.ResourceVersion}, Items: []corev1.Pod{*now}}, nil
	})
	client.PrependWatchReactor("pods", func(ktesting.Action) (bool, watch.Interface, error) {
		watcher := watch.NewFake()
		watches <- watcher
		return true, watcher, nil
	})
	factory := Factory(informers.NewSharedInformerFactory(client, 0))
	seen := &recorder{}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { seen.add("added %s", uidOf(object)) },
		UpdateFunc: func(before, after any) { seen.add("updated from %s to %s", uidOf(before), uidOf(after)) },
		DeleteFunc: func(object any) { seen.add("deleted %s", uidOf(object)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	first := <-watches
	first.Modify(pod("first", "2"))
	mu.Lock()
	now = pod("second", "4")
	mu.Unlock()
	first.Error(&metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: 410})
	want := []string{"added first", "updated from first to first", "deleted first", "added second"}
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return len(seen.all()) >= len(want)-1, nil })
	if err != nil {
		t.Fatalf("only %v: %v", seen.all(), err)
	}
	<-watches // the informer has listed, and reported all that it found
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return len(seen.all()) == len(want), nil })
	if diff := cmp.Diff(want, seen.all()); diff != "" || err != nil {
		t.Errorf("%v; reported (-want +got):\n%s", err, diff)
	}
}
