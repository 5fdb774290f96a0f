// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// record is the history of a gang according to the API server's watch events.
type record struct {
	name string
	min  int
	// holding are the Pods that are bound and not terminating, and ended the names of
	// those that have succeeded.
	holding map[types.UID]bool
	ended   map[string]bool
	// created is when its first Pod was created, firstBind when the first one was bound,
	// and whole when enough were bound for the first time.
	created, firstBind, whole time.Time
	// partial is the window that is open now.
	partial *window
	// windows are those in which some, but too few Pods were bound.
	windows []window
}

// window is a period in which a gang ran partially.
type window struct {
	gang       string
	begin, end time.Time
	// growing is true if it began with the first bind, false if it began with a loss.
	growing bool
	// lost is true if Pods of the gang were deleted meanwhile, killed if the scheduler
	// was killed.
	lost, killed bool
	most, min    int
	// beginElapsed and elapsed are its begin and its length by the clock that runs slower
	// on a busy machine, by which it is judged.
	beginElapsed, elapsed time.Duration
}

func (w *window) length() time.Duration { return w.end.Sub(w.begin) }

func (w *window) String() string {
	how := "losing Pods"
	if w.growing {
		how = "starting"
	}
	text := fmt.Sprintf("gang %s had at most %d of %d Pods for %v while %s", w.gang, w.most, w.min, w.length().Round(time.Millisecond), how)
	if w.lost {
		text += ", Pods were deleted"
	}
	if w.killed {
		text += ", the scheduler was killed"
	}
	return text
}

// follow updates the record of a gang. The caller holds the lock.
func (l *ledger) follow(name string, event watch.EventType, before, pod *corev1.Pod, now time.Time) {
	r := l.gangs[name]
	if r == nil {
		r = &record{name: name, min: minimum(pod), created: now, holding: map[types.UID]bool{}, ended: map[string]bool{}}
		l.gangs[name] = r
	}
	if event != watch.Deleted && stays(pod) {
		r.holding[pod.UID] = true
	} else {
		delete(r.holding, pod.UID)
	}
	if pod.Status.Phase == corev1.PodSucceeded {
		r.ended[pod.Name] = true
	}
	lost := pod.DeletionTimestamp != nil && (before == nil || before.DeletionTimestamp == nil) ||
		event == watch.Deleted && pod.Status.Phase != corev1.PodSucceeded
	if len(r.holding) > 0 && r.firstBind.IsZero() {
		r.firstBind = now
	}
	isWhole := len(r.holding)+len(r.ended) >= r.min
	if isWhole && r.whole.IsZero() && len(r.holding) > 0 {
		r.whole = now
	}
	l.window(r, len(r.holding) > 0 && !isWhole, lost, now)
}

// window opens, updates and closes the window in which a gang is partial.
func (l *ledger) window(r *record, partial, lost bool, now time.Time) {
	if partial && r.partial == nil {
		r.partial = &window{gang: r.name, begin: now, growing: !lost && len(r.holding) == 1, min: r.min, beginElapsed: clock.Elapsed()}
	}
	w := r.partial
	if w == nil {
		return
	}
	w.lost = w.lost || lost
	if partial {
		w.most = max(w.most, len(r.holding))
		return
	}
	r.windows, r.partial = append(r.windows, l.closed(*w, now)), nil
}

// closed returns a window that ends now.
func (l *ledger) closed(w window, now time.Time) window {
	w.end, w.elapsed = now, clock.Elapsed()-w.beginElapsed
	w.killed = slices.ContainsFunc(l.kills, func(kill time.Time) bool {
		return kill.After(w.begin.Add(-killDelay)) && kill.Before(w.end)
	})
	return w
}

// killDelay is how long after the death of the scheduler its last binds may still be
// observed.
const killDelay = time.Second

// killed records the scheduler's death.
func (l *ledger) killed(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kills = append(l.kills, now)
}

// countKills returns how often the scheduler was killed.
func (l *ledger) countKills() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.kills)
}

// partial returns all windows so far, including open ones.
func (l *ledger) partial(now time.Time) []window {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []window
	for _, r := range l.gangs {
		all = append(all, r.windows...)
		if r.partial != nil {
			all = append(all, l.closed(*r.partial, now))
		}
	}
	slices.SortFunc(all, func(a, b window) int { return b.end.Compare(a.end) })
	return all
}

// record returns a copy of the record of a gang.
func (l *ledger) record(gang string) record {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.gangs[gang]
	if r == nil {
		return record{name: gang}
	}
	known := *r
	known.holding, known.ended = maps.Clone(r.holding), maps.Clone(r.ended)
	return known
}

// reportWindows logs the longest partial window of a test.
func (s *suite) reportWindows() {
	s.Helper()
	var longest *window
	all := s.ledger.partial(time.Now())
	for i := range all {
		if longest == nil || all[i].length() > longest.length() {
			longest = &all[i]
		}
	}
	if longest != nil {
		s.Logf("%d partial windows; the longest: %s", len(all), longest)
	}
}
