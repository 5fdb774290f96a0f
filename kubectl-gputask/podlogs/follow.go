// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	// maxPause is the longest time between two attempts at the log of a running container.
	maxPause = 10 * time.Second
	// farewell is how long the log of a Pod that is gone is still read: what it wrote last may
	// be on the way, but a connection to a dead node may never end.
	farewell = 5 * time.Second
	// maxFailures is how often in a row the log of a task that is over is tried: for a minute.
	maxFailures = 10
)

// Limit bounds the number of connections at the same time.
type Limit chan struct{}

// NewLimit returns a limit.
func NewLimit(count int) Limit { return make(Limit, count) }

func (l Limit) enter(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l Limit) leave() { <-l }

// Follower writes the log of a Pod and of its replacements.
type Follower struct {
	Log
	Members *Members
	Task    *v1.GPUTask
	// Pod is the Pod's name.
	Pod string
	// Streams limits the logs that are followed, Reads those of containers that have ended.
	Streams, Reads Limit
	Clock          clock.Clock
	// Pause is the shortest time between two attempts.
	Pause time.Duration
	// Late is true for a Pod that came while others were followed, or was waited for: all that
	// it writes is new, whatever the options say.
	Late bool
	// Warn tells about an interruption.
	Warn func(error)

	cursor *cursor
	// done is the last instance whose log is complete.
	done     *instance
	failures int
	pause    time.Duration
}

// Run returns when the task is finished or gone and all of the log is written.
func (f *Follower) Run(ctx context.Context) error {
	for {
		changed, over := f.Members.Changed(), f.Members.IsOver(f.Task)
		pod := f.Members.pod(f.Task, f.Pod)
		now := state{}
		if pod != nil {
			now = stateOf(pod, ContainerOf(pod, f.Container))
		}
		if pod != nil && now.started && (f.done == nil || *f.done != now.instance) {
			if err := f.continueWith(ctx, pod, now, over); err != nil {
				return err
			}
			continue
		}
		if over {
			return nil
		}
		f.Late = true
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// continueWith reads the log of an instance from where it was left. A log is complete if it
// was read once more after the container is known to have ended.
func (f *Follower) continueWith(ctx context.Context, pod *corev1.Pod, now state, over bool) error {
	limit := f.Streams
	if now.ended {
		limit = f.Reads
	}
	if err := limit.enter(ctx); err != nil {
		return err
	}
	defer limit.leave()
	lines := 0
	pod, err := f.refresh(ctx, pod)
	if err == nil {
		now = stateOf(pod, ContainerOf(pod, f.Container))
		if err = f.moveTo(ctx, pod, now); err == nil {
			lines, err = f.stream(ctx, pod, now)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if lines > 0 || err == nil {
		f.failures = 0
	}
	if lines > 0 {
		f.pause = f.Pause
	}
	if err == nil && now.ended {
		f.done, f.Late = &now.instance, true
		return nil
	}
	// Without an error it ended cleanly, but the container runs, as far as is known.
	if err := f.judge(err, over); err != nil {
		return err
	}
	return f.rest(ctx)
}

// refresh returns the Pod as it is now: the log is found by its name, and must not be taken
// for that of a Pod that was replaced.
func (f *Follower) refresh(ctx context.Context, known *corev1.Pod) (*corev1.Pod, error) {
	pod, err := f.Kube.CoreV1().Pods(known.Namespace).Get(ctx, known.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if pod.UID != known.UID {
		return nil, apierrors.NewNotFound(corev1.Resource("pods"), known.Name)
	}
	return pod, nil
}

// moveTo begins with an instance, unless it has been begun with.
func (f *Follower) moveTo(ctx context.Context, pod *corev1.Pod, now state) error {
	if f.cursor != nil && f.cursor.instance == now.instance {
		return nil
	}
	if err := f.finishPrevious(ctx, pod, now); err != nil {
		return err
	}
	f.Late = f.Late || f.cursor != nil
	f.cursor, f.pause = newCursor(now.instance), f.Pause
	return nil
}

// judge returns an error that can't be mended by trying again.
func (f *Follower) judge(err error, over bool) error {
	if err == nil {
		return nil
	}
	f.failures++
	if isFinal(err) || over && f.failures >= maxFailures {
		return err
	}
	if f.failures == 1 && !apierrors.IsNotFound(err) {
		f.Warn(fmt.Errorf("%w; trying again", err))
	}
	return nil
}

// isFinal reports whether trying again is of no use.
func isFinal(err error) bool {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return true
	case apierrors.IsBadRequest(err):
		return !strings.Contains(err.Error(), "waiting to start") && !strings.Contains(err.Error(), "is terminated")
	default:
		return false
	}
}

// rest pauses, longer each time.
func (f *Follower) rest(ctx context.Context) error {
	pause := max(f.pause, f.Pause)
	f.pause = min(2*pause, maxPause)
	return cluster.Sleep(ctx, f.Clock, pause)
}

// finishPrevious writes what is left of the instance before, if the kubelet still has it.
func (f *Follower) finishPrevious(ctx context.Context, pod *corev1.Pod, now state) error {
	if f.cursor == nil || f.cursor.instance != (instance{pod: now.pod, restarts: now.restarts - 1}) || f.done != nil && *f.done == f.cursor.instance {
		return nil
	}
	options := f.from(ContainerOf(pod, f.Container), f.cursor.resume())
	options.Previous = true
	err := f.read(ctx, pod, options, func(line string, _ bool) { f.take(line) })
	if apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) {
		f.Warn(fmt.Errorf("the end of the log before the restart may be missing: %w", err))
		return nil
	}
	return err
}

// errReplaced ends the stream of a Pod that is gone.
var errReplaced = errors.New("the Pod is gone")

// stream reads a log and returns how many lines were new.
func (f *Follower) stream(ctx context.Context, pod *corev1.Pod, now state) (lines int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go f.cancelIfReplaced(ctx, pod, cancel)
	options := f.from(ContainerOf(pod, f.Container), f.cursor.resume())
	options.Follow = !now.ended
	if f.Late && options.SinceTime == nil {
		options.TailLines, options.SinceSeconds = nil, nil
	}
	err = f.read(ctx, pod, options, func(line string, whole bool) {
		// Only the log of a container that has ended may end without a line feed.
		if (whole || now.ended) && f.take(line) {
			lines++
		}
	})
	if errors.Is(context.Cause(ctx), errReplaced) {
		return lines, nil
	}
	return lines, err
}

// cancelIfReplaced ends a stream some time after its Pod has gone.
func (f *Follower) cancelIfReplaced(ctx context.Context, pod *corev1.Pod, cancel context.CancelCauseFunc) {
	for {
		changed := f.Members.Changed()
		if now := f.Members.pod(f.Task, f.Pod); now == nil || now.UID != pod.UID {
			break
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
	if cluster.Sleep(ctx, f.Clock, farewell) == nil {
		cancel(errReplaced)
	}
}

// take writes a line unless it was written before.
func (f *Follower) take(line string) bool {
	if !f.cursor.isNew(line) {
		return false
	}
	if !f.Timestamps {
		if stamp, text, found := strings.Cut(line, " "); found && isTime(stamp) {
			line = text
		} else if isTime(line) {
			line = ""
		}
	}
	f.Write(line)
	return true
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}
