// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// blindPoll is how often to reconcile if the directory can't be watched, which takes a
// handful of system calls.
const blindPoll = time.Second

var (
	errNoKubelet = errors.New("there is no kubelet")
	errLost      = errors.New("the kubelet has ended the stream of devices")
	errNoStream  = errors.New("the kubelet has not opened the stream of devices")
	errOtherLeft = errors.New("another plugin of the resource has left, and the kubelet may no longer offer the devices of this one")
)

// registrar keeps a Plugin registered. It is level-triggered: each reconciliation looks at
// the current state, so that a missed event does no lasting harm.
type registrar struct {
	*Plugin
	server *server
	dir    *dirWatcher

	// kubelet is the kubelet's socket at the last registration; nil before it.
	kubelet os.FileInfo
	// others are the other plugins of the resource.
	others map[string]bool
	// lastObstacle is the last logged reason why they could not be checked.
	lastObstacle string
	// problem is why to register again; nil if there is no reason.
	problem error
	// failures counts lost and failed registrations in a row.
	failures int
	// since is when the last registration was tried; notBefore is the earliest time for
	// the next one.
	since, notBefore time.Time
}

func newRegistrar(p *Plugin, server *server, dir *dirWatcher) *registrar {
	return &registrar{Plugin: p, server: server, dir: dir, others: map[string]bool{}}
}

// reconcile does what is missing, and returns the longest time until the next call.
func (r *registrar) reconcile(ctx context.Context) time.Duration {
	next := r.ensureRegistered(ctx)
	if len(r.sockets.silent) > 0 {
		next = min(next, deathGrace)
	}
	return next
}

func (r *registrar) ensureRegistered(ctx context.Context) time.Duration {
	if err := r.prepare(ctx); err != nil {
		r.notRegistered(ctx, err)
		return r.config.Timing.Retry
	}
	kubelet, err := os.Stat(r.kubeletSocket())
	if err != nil {
		r.notRegistered(ctx, errNoKubelet)
		r.kubelet = nil
		return r.pollInterval()
	}
	now := r.config.Clock.Now()
	if r.kubelet == nil || !os.SameFile(r.kubelet, kubelet) || !r.kubelet.ModTime().Equal(kubelet.ModTime()) {
		// A new kubelet starts without the backoff from its predecessor.
		r.failures, r.notBefore = 0, now
		return r.register(ctx, kubelet)
	}
	r.checkStream(ctx, now)
	switch {
	case r.problem == nil:
		return r.nextReconcile(now)
	case now.Before(r.notBefore):
		return r.notBefore.Sub(now)
	default:
		return r.register(ctx, kubelet)
	}
}

// prepare watches the directory and listens in it. It fails only if there is no
// directory or the server can't listen.
func (r *registrar) prepare(ctx context.Context) error {
	if _, err := os.Stat(r.config.Dir); errors.Is(err, os.ErrNotExist) {
		return err
	}
	r.dir.watch(ctx)
	r.checkOthers(ctx)
	return r.server.ensure(ctx, r.sockets.path())
}

// checkOthers notices that another plugin of the resource has left.
func (r *registrar) checkOthers(ctx context.Context) {
	others, err := r.sockets.others(ctx, r.config.Clock.Now())
	r.logObstacle(ctx, err)
	if others == nil {
		return // unknown
	}
	left := false
	for instance := range r.others {
		left = left || !others[instance]
	}
	r.others = others
	if left && r.kubelet != nil && r.problem == nil {
		r.backOff(ctx, errOtherLeft)
	}
}

// noteOther makes the next check find that another plugin has left which has come and gone
// since the last check.
func (r *registrar) noteOther(path string) {
	if instance := r.sockets.otherInstance(filepath.Base(path)); instance != "" {
		r.others[instance] = true
	}
}

// logObstacle logs, once, an error that does not prevent a registration.
func (r *registrar) logObstacle(ctx context.Context, err error) {
	if err == nil {
		r.lastObstacle = ""
		return
	}
	if r.lastObstacle != err.Error() {
		r.lastObstacle = err.Error()
		klog.FromContext(ctx).Error(err, "Other plugins of the resource can't be checked")
	}
}

// checkStream detects that the kubelet no longer reads the stream of devices.
func (r *registrar) checkStream(ctx context.Context, now time.Time) {
	if r.problem != nil {
		return
	}
	begun, open := r.streams.state()
	switch {
	case open:
	case begun:
		if now.Sub(r.since) > r.config.Timing.MaxRetry {
			r.failures = 0 // the stream was stable
		}
		r.backOff(ctx, errLost)
	case now.Sub(r.since) >= r.config.Timing.Stream:
		r.backOff(ctx, errNoStream)
	}
}

// register tries to register, with a socket that was in no registration before. The kubelet
// then opens a new stream; the old ones are left open, see the package's documentation.
func (r *registrar) register(ctx context.Context, kubelet os.FileInfo) time.Duration {
	if !r.since.IsZero() {
		r.sockets.renew()
	}
	err := r.server.ensure(ctx, r.sockets.path())
	if err == nil {
		r.streams.startRegistration()
		err = register(ctx, r.kubeletSocket(), r.config.Resource, r.sockets.own())
	}
	r.kubelet, r.since = kubelet, r.config.Clock.Now()
	if err != nil {
		r.backOff(ctx, err)
		return r.notBefore.Sub(r.since)
	}
	r.problem = nil
	r.countRegistration()
	klog.FromContext(ctx).Info("Registered with the kubelet", "socket", r.sockets.own())
	return r.nextReconcile(r.since)
}

// nextReconcile returns the time until the next poll, or until the kubelet must have
// opened its stream.
func (r *registrar) nextReconcile(now time.Time) time.Duration {
	if begun, _ := r.streams.state(); !begun {
		return min(r.pollInterval(), max(0, r.since.Add(r.config.Timing.Stream).Sub(now)))
	}
	return r.pollInterval()
}

// pollInterval returns how often to reconcile without any event.
func (r *registrar) pollInterval() time.Duration {
	if r.dir.blind {
		return min(r.config.Timing.Poll, blindPoll)
	}
	return r.config.Timing.Poll
}

// backOff schedules another registration after a delay, so that two plugins of one
// resource don't register in a tight loop.
func (r *registrar) backOff(ctx context.Context, err error) {
	timing := r.config.Timing
	delay := timing.MaxRetry
	if r.failures < 16 {
		delay = min(timing.Retry<<r.failures, timing.MaxRetry)
	}
	delay = wait.Jitter(delay, 1)
	r.failures++
	r.notBefore = r.config.Clock.Now().Add(delay)
	r.problem = err
	r.setError(err)
	klog.FromContext(ctx).Info("Will register again", "reason", err, "in", delay)
}

// notRegistered sets the error in the Plugin's status, and logs it if it is a new one.
func (r *registrar) notRegistered(ctx context.Context, err error) {
	r.mu.Lock()
	isNew := r.lastError == nil || r.lastError.Error() != err.Error()
	r.lastError = err
	r.mu.Unlock()
	if isNew {
		klog.FromContext(ctx).Info("Not registered", "reason", err)
	}
}

// wait returns on the next event, or when the limit has passed.
func (r *registrar) wait(ctx context.Context, limit time.Duration) {
	timer := r.config.Clock.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
			return
		case <-r.streams.changed:
			return
		case err := <-r.dir.errors:
			klog.FromContext(ctx).Error(err, "Watching the directory failed", "folder", r.config.Dir)
			return
		case event := <-r.dir.events:
			if isRelevant(event) {
				r.noteOther(event.Name)
				return
			}
		}
	}
}
