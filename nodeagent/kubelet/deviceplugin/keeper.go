// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"errors"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// blindPoll is how often to look if the folder can't be watched. A look is a
// handful of system calls.
const blindPoll = time.Second

var (
	errNoKubelet = errors.New("there is no kubelet")
	errLost      = errors.New("the kubelet has ended the stream of devices")
	errNoStream  = errors.New("the kubelet has not asked for the devices")
	errOtherLeft = errors.New("another plugin of the resource has left, and the kubelet may have dropped this one with it")
)

// keeper keeps a Plugin registered. It looks at what there is and does what is
// missing, whatever it was that made it look; nothing that it misses once is lost.
type keeper struct {
	*Plugin
	server *server
	folder *folder

	// kubelet is the kubelet's socket at the last registration; nil before it.
	kubelet os.FileInfo
	// others are the sockets of other plugins of the resource.
	others map[string]bool
	// obstacle is what was last told to be in the way of looking for them.
	obstacle string
	// problem is why to register again; nil if there is no reason.
	problem error
	// failures counts losses and failures in a row.
	failures int
	// since is when the last registration was accepted; notBefore is when the
	// next one may be tried.
	since, notBefore time.Time
}

func newKeeper(p *Plugin, server *server, folder *folder) *keeper {
	return &keeper{Plugin: p, server: server, folder: folder}
}

// look does what is missing, and returns when to look again at the latest.
func (k *keeper) look(ctx context.Context) time.Duration {
	next := k.repair(ctx)
	if len(k.sockets.silent) > 0 {
		next = min(next, deathGrace)
	}
	return next
}

func (k *keeper) repair(ctx context.Context) time.Duration {
	if err := k.prepare(ctx); err != nil {
		k.report(ctx, err)
		return k.config.Timing.Retry
	}
	kubelet, err := os.Stat(k.kubeletSocket())
	if err != nil {
		k.report(ctx, errNoKubelet)
		k.kubelet = nil
		return k.poll()
	}
	now := k.config.Clock.Now()
	if k.kubelet == nil || !os.SameFile(k.kubelet, kubelet) || !k.kubelet.ModTime().Equal(kubelet.ModTime()) {
		// A new kubelet knows nothing of the quarrels with its predecessor.
		k.failures, k.notBefore = 0, now
		return k.register(ctx, kubelet)
	}
	k.judge(ctx, now)
	switch {
	case k.problem == nil:
		return k.untilNextLook(now)
	case now.Before(k.notBefore):
		return k.notBefore.Sub(now)
	default:
		return k.register(ctx, kubelet)
	}
}

// prepare watches the folder and serves in it. Only without a folder, or if the
// server can't listen, there is nothing more to do.
func (k *keeper) prepare(ctx context.Context) error {
	if _, err := os.Stat(k.config.Dir); errors.Is(err, os.ErrNotExist) {
		return err
	}
	k.folder.watch(ctx)
	k.lookForOthers(ctx)
	return k.server.ensure(ctx)
}

// lookForOthers notices that another plugin of the resource has left.
func (k *keeper) lookForOthers(ctx context.Context) {
	others, err := k.sockets.others(ctx, k.config.Clock.Now())
	k.complain(ctx, err)
	if others == nil {
		return // they could not be seen
	}
	left := false
	for name := range k.others {
		left = left || !others[name]
	}
	k.others = others
	if left && k.kubelet != nil && k.problem == nil {
		k.retryLater(ctx, errOtherLeft)
	}
}

// complain logs once what does not keep the Plugin from being registered.
func (k *keeper) complain(ctx context.Context, err error) {
	if err == nil {
		k.obstacle = ""
		return
	}
	if k.obstacle != err.Error() {
		k.obstacle = err.Error()
		klog.FromContext(ctx).Error(err, "Other plugins of the resource can't be looked after")
	}
}

// judge finds out whether the kubelet still listens.
func (k *keeper) judge(ctx context.Context, now time.Time) {
	if k.problem != nil {
		return
	}
	begun, open := k.streams.state()
	switch {
	case open:
	case begun:
		if now.Sub(k.since) > k.config.Timing.MaxRetry {
			k.failures = 0 // it went well for long
		}
		k.retryLater(ctx, errLost)
	case now.Sub(k.since) >= k.config.Timing.Stream:
		k.retryLater(ctx, errNoStream)
	}
}

// register tries to register. There are new streams afterwards; the old ones are
// left alone, see the package's documentation.
func (k *keeper) register(ctx context.Context, kubelet os.FileInfo) time.Duration {
	k.streams.expect()
	err := register(ctx, k.kubeletSocket(), k.config.Resource, k.sockets.own)
	k.kubelet, k.since = kubelet, k.config.Clock.Now()
	if err != nil {
		k.retryLater(ctx, err)
		return k.notBefore.Sub(k.since)
	}
	k.problem = nil
	k.registered()
	klog.FromContext(ctx).Info("Registered with the kubelet", "socket", k.sockets.own)
	return k.untilNextLook(k.since)
}

// untilNextLook is the slow poll, or less if the kubelet is awaited.
func (k *keeper) untilNextLook(now time.Time) time.Duration {
	if begun, _ := k.streams.state(); !begun {
		return min(k.poll(), max(0, k.since.Add(k.config.Timing.Stream).Sub(now)))
	}
	return k.poll()
}

// poll is how long nobody needs to look.
func (k *keeper) poll() time.Duration {
	if k.folder.blind {
		return min(k.config.Timing.Poll, blindPoll)
	}
	return k.config.Timing.Poll
}

// retryLater has the Plugin registered again after a delay, which keeps two
// plugins of one resource from fighting over it at full speed.
func (k *keeper) retryLater(ctx context.Context, err error) {
	timing := k.config.Timing
	delay := timing.MaxRetry
	if k.failures < 16 {
		delay = min(timing.Retry<<k.failures, timing.MaxRetry)
	}
	delay = wait.Jitter(delay, 1)
	k.failures++
	k.notBefore = k.config.Clock.Now().Add(delay)
	k.problem = err
	k.fail(err)
	klog.FromContext(ctx).Info("Will register again", "reason", err, "in", delay)
}

// report keeps an error that is no secret to anybody who looks, and logs it once.
func (k *keeper) report(ctx context.Context, err error) {
	k.mu.Lock()
	news := k.lastError == nil || k.lastError.Error() != err.Error()
	k.lastError = err
	k.mu.Unlock()
	if news {
		klog.FromContext(ctx).Info("Not registered", "reason", err)
	}
}

// wait returns when there is something to look at, after the limit at the
// latest.
func (k *keeper) wait(ctx context.Context, limit time.Duration) {
	timer := k.config.Clock.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
			return
		case <-k.streams.changed:
			return
		case err := <-k.folder.errors:
			klog.FromContext(ctx).Error(err, "Watching the folder", "folder", k.config.Dir)
			return
		case event := <-k.folder.events:
			if concerns(event) {
				return
			}
		}
	}
}
