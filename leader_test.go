// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	componentbaseconfig "k8s.io/component-base/config"
)

// leadership is a call of lead on a fake API server.
type leadership struct {
	t      *testing.T
	client *kubefake.Clientset
	stop   context.CancelFunc
	// working is closed when the work begins, toldToStop when its context ends; the work
	// ends when the test closes mayEnd.
	working, toldToStop, mayEnd chan struct{}
	result                      chan error
	// away makes every renewal of the lease fail.
	away atomic.Bool
}

func startLeading(t *testing.T) *leadership {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &leadership{
		t: t, client: kubefake.NewClientset(), stop: stop,
		working: make(chan struct{}), toldToStop: make(chan struct{}), mayEnd: make(chan struct{}), result: make(chan error, 1),
	}
	l.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if l.away.Load() {
			return true, nil, errors.New("the API server is away")
		}
		return false, nil, nil
	})
	settings := newOptions().leaderElection
	settings.LeaseDuration, settings.RenewDeadline, settings.RetryPeriod =
		metav1.Duration{Duration: 2 * time.Second}, metav1.Duration{Duration: time.Second}, metav1.Duration{Duration: 100 * time.Millisecond}
	go func() { l.result <- l.lead(ctx, settings) }()
	l.waitFor(l.working, "the work has begun")
	return l
}

func (l *leadership) lead(ctx context.Context, settings componentbaseconfig.LeaderElectionConfiguration) error {
	return lead(ctx, l.client, settings, leaderelection.NewLeaderHealthzAdaptor(leaderTimeout), func(ctx context.Context) {
		close(l.working)
		<-ctx.Done()
		close(l.toldToStop)
		<-l.mayEnd
	})
}

func (l *leadership) waitFor(event <-chan struct{}, what string) {
	l.t.Helper()
	select {
	case <-event:
	case <-time.After(20 * time.Second):
		l.t.Fatalf("not in time: %s", what)
	}
}

// isHeld reports whether the lease has a holder.
func (l *leadership) isHeld() bool {
	l.t.Helper()
	settings := newOptions().leaderElection
	lease, err := l.client.CoordinationV1().Leases(settings.ResourceNamespace).Get(context.WithoutCancel(l.t.Context()), settings.ResourceName, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
}

func (l *leadership) end() error {
	l.t.Helper()
	close(l.mayEnd)
	select {
	case err := <-l.result:
		return err
	case <-time.After(20 * time.Second):
		l.t.Fatal("lead did not return")
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
