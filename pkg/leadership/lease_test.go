// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// holder is a process that holds a lease of a fake API server.
func holder(t *testing.T, client *fake.Clientset) (guard *Guard, config leaderelection.LeaderElectionConfig) {
	t.Helper()
	guard = NewGuard(clock.RealClock{})
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, "ns", "lease", client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: self})
	if err != nil {
		t.Fatal(err)
	}
	return guard, leaderelection.LeaderElectionConfig{
		LeaseDuration: time.Second, RenewDeadline: 500 * time.Millisecond, RetryPeriod: 20 * time.Millisecond,
		Lock:      guard.Watch(lock, 500*time.Millisecond),
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not so: " + what)
		}
	}
}

func TestALeaseThatCouldNotBeRenewedIsHeldAgain(t *testing.T) {
	client := fake.NewClientset()
	away := make(chan struct{})
	var back atomic.Bool
	client.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return isClosed(away) && !back.Load(), nil, errors.New("the API server is away")
	})
	guard, config := holder(t, client)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- guard.Hold(ctx, config) }()
	<-guard.Acquired()
	close(away)
	eventually(t, "it does not lead while it can't renew the lease", func() bool { return !guard.Leads() })
	back.Store(true)
	eventually(t, "it leads again", guard.Leads)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWhoeverComesAfterAnotherLeaderStops(t *testing.T) {
	client := fake.NewClientset()
	// The fake does not check versions, so the test decides what it refuses.
	var taken atomic.Bool
	var refused atomic.Int32
	client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		if taken.Load() && *lease.Spec.LeaseTransitions == 0 {
			refused.Add(1)
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "lease", errors.New("modified"))
		}
		return false, nil, nil
	})
	guard, config := holder(t, client)
	ended := make(chan error, 1)
	go func() { ended <- guard.Hold(t.Context(), config) }()
	<-guard.Acquired()
	// Another process takes the lease for a moment.
	taken.Store(true)
	eventually(t, "no renewal is in flight", func() bool { return refused.Load() > 0 })
	now := metav1.NowMicro()
	if err := client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lease"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("other"), LeaseDurationSeconds: new(int32(1)), LeaseTransitions: new(int32(1)), AcquireTime: &now, RenewTime: &now,
		},
	}, "ns"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, ErrSuperseded) {
			t.Errorf("got %v, want %v", err, ErrSuperseded)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it does not stop")
	}
	if guard.Leads() {
		t.Error("it leads although it does not know what the other process has done")
	}
}
