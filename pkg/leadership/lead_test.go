// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/utils/clock"
)

// leading is a call of Lead on a fake API server.
type leading struct {
	t      *testing.T
	client *kubefake.Clientset
	stop   context.CancelFunc
	// working is closed when the work begins, toldToStop when its context ends; the work
	// ends when the test closes mayEnd.
	working, toldToStop, mayEnd chan struct{}
	result                      chan error
	guard                       *Guard
	// away makes every renewal of the lease fail. renewed is the time before the last one that did not, in nanoseconds.
	away    atomic.Bool
	renewed atomic.Int64
	// taken makes those renewals fail that don't know of another leader; refused is true once one has.
	taken, refused atomic.Bool
}

func leaderSettings() componentbaseconfig.LeaderElectionConfiguration {
	return componentbaseconfig.LeaderElectionConfiguration{
		LeaseDuration: metav1.Duration{Duration: 2 * time.Second}, RenewDeadline: metav1.Duration{Duration: time.Second}, RetryPeriod: metav1.Duration{Duration: 100 * time.Millisecond},
		ResourceLock: resourcelock.LeasesResourceLock, ResourceName: "controller", ResourceNamespace: "system",
	}
}

func startLeading(t *testing.T) *leading {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &leading{
		t: t, client: kubefake.NewClientset(), guard: NewGuard(clock.RealClock{}), stop: stop,
		working: make(chan struct{}), toldToStop: make(chan struct{}), mayEnd: make(chan struct{}), result: make(chan error, 1),
	}
	l.client.PrependReactor("update", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if l.away.Load() {
			return true, nil, errors.New("the API server is away")
		}
		lease := action.(clienttesting.UpdateAction).GetObject().(*coordinationv1.Lease)
		if l.taken.Load() && *lease.Spec.LeaseTransitions == 0 {
			l.refused.Store(true)
			return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), lease.Name, errors.New("modified"))
		}
		l.renewed.Store(time.Now().UnixNano())
		return false, nil, nil
	})
	go func() { l.result <- l.lead(ctx, leaderSettings()) }()
	l.waitFor(l.working, "the work has begun")
	return l
}

func (l *leading) lead(ctx context.Context, settings componentbaseconfig.LeaderElectionConfiguration) error {
	return l.guard.Lead(ctx, l.client, settings, leaderelection.NewLeaderHealthzAdaptor(time.Minute), func(ctx context.Context) {
		close(l.working)
		<-ctx.Done()
		close(l.toldToStop)
		<-l.mayEnd
	})
}

func (l *leading) waitFor(event <-chan struct{}, what string) {
	l.t.Helper()
	select {
	case <-event:
	case <-time.After(20 * time.Second):
		l.t.Fatalf("not in time: %s", what)
	}
}

// isHeld reports whether the lease has a holder.
func (l *leading) isHeld() bool {
	l.t.Helper()
	settings := leaderSettings()
	lease, err := l.client.CoordinationV1().Leases(settings.ResourceNamespace).Get(context.WithoutCancel(l.t.Context()), settings.ResourceName, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
}

func (l *leading) end() error {
	l.t.Helper()
	close(l.mayEnd)
	select {
	case err := <-l.result:
		return err
	case <-time.After(20 * time.Second):
		l.t.Fatal("Lead did not return")
		return nil
	}
}

func TestTheLeaseIsGivenBackOnlyAfterTheLastWorker(t *testing.T) {
	t.Parallel()
	l := startLeading(t)
	l.stop()
	l.waitFor(l.toldToStop, "the work is told to stop")
	if !l.isHeld() {
		t.Error("the lease was given back while the workers still run")
	}
	if err := l.end(); err != nil {
		t.Errorf("got error %v after an orderly stop", err)
	}
	if l.isHeld() {
		t.Error("the lease was not given back")
	}
}

func TestALostLeaseStopsTheWorkAndIsLeftToExpire(t *testing.T) {
	t.Parallel()
	l := startLeading(t)
	l.away.Store(true)
	l.waitFor(l.toldToStop, "the work is told to stop")
	l.away.Store(false)
	if err := l.end(); err == nil {
		t.Error("got no error although the lease was lost")
	}
	if !l.isHeld() {
		t.Error("the lost lease was given back")
	}
}

// A process that was frozen may find that another one has led, and has given the lease back: it gets the lease again
// within a renewal.
func TestWhoGetsTheLeaseAgainAfterAnotherLeaderStops(t *testing.T) {
	t.Parallel()
	l := startLeading(t)
	l.taken.Store(true)
	for deadline := time.Now().Add(20 * time.Second); !l.refused.Load(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no renewal was refused")
		}
	}
	settings, now := leaderSettings(), metav1.NowMicro()
	if err := l.client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: settings.ResourceNamespace, Name: settings.ResourceName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new(""), LeaseDurationSeconds: new(int32(1)), LeaseTransitions: new(int32(1)), AcquireTime: &now, RenewTime: &now,
		},
	}, settings.ResourceNamespace); err != nil {
		t.Fatal(err)
	}
	l.waitFor(l.toldToStop, "the work is told to stop")
	if l.guard.Leads() {
		t.Error("it leads although it does not know what the other process has done")
	}
	if err := l.end(); err == nil {
		t.Error("got no error although another process has led")
	}
}

// answer answers requests in the place of an API server.
type answer func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (a answer) RoundTrip(request *http.Request) (*http.Response, error) { return a(request) }

// A sync goes on for a while after the lease was lost. What it writes must have ended when another process can take the
// lease over: two seconds after the last renewal.
func TestWritesEndBeforeAnotherProcessCanLead(t *testing.T) {
	t.Parallel()
	l := startLeading(t)
	hung := make(chan struct{})
	config := &rest.Config{QPS: -1, Transport: answer(func(request *http.Request) (*http.Response, error) {
		if strings.HasSuffix(request.URL.Path, "/hung") {
			close(hung)
			<-request.Context().Done()
			return nil, request.Context().Err()
		}
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: request}, nil
	})}
	config.Wrap(l.guard.Fence)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	remove := func(name string) error {
		return client.CoreV1().Pods("default").Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	}
	if err := remove("pod"); err != nil {
		t.Fatalf("the leader can't write: %v", err)
	}
	for deadline := time.Now().Add(20 * time.Second); l.renewed.Load() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the lease is not renewed")
		}
	}
	l.away.Store(true)
	inFlight := make(chan time.Time, 1)
	go func() {
		_ = remove("hung")
		inFlight <- time.Now()
	}()
	l.waitFor(hung, "a write is in flight")
	var last time.Time
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if remove("pod") == nil {
			last = time.Now()
		}
	}
	expires := time.Unix(0, l.renewed.Load()).Add(2 * time.Second)
	if last.IsZero() || last.After(expires) {
		t.Errorf("the last write was made %v after the lease had expired", last.Sub(expires))
	}
	select {
	case ended := <-inFlight:
		if ended.After(expires) {
			t.Errorf("a write was in flight until %v after the lease had expired", ended.Sub(expires))
		}
	default:
		t.Error("a write is still in flight")
	}
	if err := l.end(); err == nil {
		t.Error("got no error although the lease was lost")
	}
}
