// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eventfilter has kube-scheduler's Event FailedScheduling once for each cause. kube-scheduler records one for
// every attempt with every Pod, so that an array of short Pods has dozens that say the same. What a Pod waits for now
// is in its condition PodScheduled, which is written at every attempt.
package eventfilter

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// failed is the reason of the Events that are dropped.
	failed = "FailedScheduling"
	// period is for how long the same cause is not recorded again.
	period = 10 * time.Minute
	// remembered is how many causes are remembered at most: those recorded last.
	remembered = 10_000
)

// cause is why Pods with the same controller can't be scheduled: the message without its counts, which change as other
// Pods come and go.
type cause struct {
	owner   types.UID
	message string
}

// recorded is when causes were recorded last. It is safe for concurrent use.
type recorded struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	last  *lru.Cache
}

// isNew reports whether a cause is to be recorded, and notes that it is.
func (r *recorded) isNew(why cause) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if last, known := r.last.Get(why); known && now.Sub(last.(time.Time)) < period {
		return false
	}
	r.last.Add(why, now)
	return true
}

// Wrap returns a factory of recorders that write as those of another one do, but no Event that repeats a cause.
func Wrap(factory func(name string) events.EventRecorderLogger, clock clock.PassiveClock) func(name string) events.EventRecorderLogger {
	shared := &recorded{clock: clock, last: lru.New(remembered)}
	return func(name string) events.EventRecorderLogger { return recorder{factory(name), shared} }
}

type recorder struct {
	events.EventRecorderLogger
	recorded *recorded
}

// WithLogger returns a recorder that drops the same Events.
func (r recorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return recorder{r.EventRecorderLogger.WithLogger(logger), r.recorded}
}

// Eventf records an Event unless it repeats an earlier one.
func (r recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if pod, isPod := regarding.(*corev1.Pod); isPod && reason == failed && !r.recorded.isNew(causeOf(pod, note, args)) {
		return
	}
	r.EventRecorderLogger.Eventf(regarding, related, eventType, reason, action, note, args...)
}

func causeOf(pod *corev1.Pod, note string, args []any) cause {
	owner := pod.UID
	if controller := metav1.GetControllerOfNoCopy(pod); controller != nil {
		owner = controller.UID
	}
	message := note
	if len(args) > 0 {
		message = fmt.Sprintf(note, args...)
	}
	return cause{owner: owner, message: withoutCounts(message)}
}

// withoutCounts drops the words that are numbers: "2", "0/4", "(1". Those that only contain some are names: "h100", "data-1".
func withoutCounts(text string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(text), func(word string) bool {
		return strings.Trim(word, "0123456789/(),.;:") == ""
	}), " ")
}
