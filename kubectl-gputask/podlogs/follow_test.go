// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podlogs_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"falldio.github.io/gpu-controller/kubectl-gputask/podlogs"
)

// all reads everything, without timestamps.
func all() podlogs.Options { return podlogs.Options{Tail: -1} }

// stamped returns lines with timestamps, several in each second and some at the same instant,
// and the lines without them. Some lines are equal.
func stamped(count int) (lines, texts []string) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for i := range count {
		if i%3 > 0 {
			at = at.Add(130 * time.Millisecond)
		}
		text := fmt.Sprintf("step %d", i/2)
		lines, texts = append(lines, at.Format(time.RFC3339Nano)+" "+text), append(texts, text)
	}
	return lines, texts
}

// breaks returns random breakages, of which there are some hundred in a thousand lines.
func breaks(seed uint64) func() breakage {
	random := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	return func() breakage {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(20) > 0 {
			return goesOn
		}
		return breakage(1 + random.IntN(3))
	}
}

func TestNoLineIsLostOrRepeatedWhenConnectionsEnd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.broken = breaks(seed)
			f.pod("a", 0, runs())
			wait := f.follow(all())
			lines, texts := stamped(400)
			for i := range lines {
				f.write("a/0", lines[i])
				if i%50 == 49 {
					f.waitFor(i / 2) // so that it is read while it is written
				}
			}
			f.change("a/0", func(log *containerLog) { log.tail = "2026-11-21T13:00:00Z the end" })
			f.succeeds("a", 0)
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append(texts, "the end"), f.lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if f.requests < 10 {
				t.Errorf("%d requests: the connections did not break", f.requests)
			}
		})
	}
}

func TestALogGoesOnAfterAServerThatRefusesForAWhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pod("a", 0, runs())
	lines, texts := stamped(6)
	f.write("a/0", lines[:3]...)
	var once sync.Once
	f.broken = func() breakage {
		broke := goesOn
		if f.linesWritten() >= 3 {
			once.Do(func() { broke = isCut })
		}
		return broke
	}
	wait := f.follow(all())
	f.waitFor(3)
	f.refuse(apierrors.NewInternalError(fmt.Errorf("dial tcp: connection refused")))
	f.write("a/0", lines[3:]...)
	f.untilWarned("trying again")
	f.refuse(nil)
	f.waitFor(6)
	f.succeeds("a", 0)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(texts, f.lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestThePodThatReplacesAnotherIsFollowedFromItsBeginning(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lines, _ := stamped(10)
	f.pod("a", 0, runs())
	f.write("a/0", lines[:5]...)
	wait := f.follow(podlogs.Options{Tail: 2})
	f.waitFor(2)
	f.write("b/0", lines[5:]...)
	f.pod("b", 0, runs()) // the stream of the other hangs, as that of a dead node may
	f.waitFor(7)
	f.succeeds("b", 0)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"step 1", "step 2", "step 2", "step 3", "step 3", "step 4", "step 4"}, f.lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestTheEndOfALogBeforeARestartInThePodIsWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lines, _ := stamped(9)
	f.pod("a", 0, runs())
	f.write("a/0", lines[:3]...)
	var once sync.Once
	cut := make(chan struct{})
	f.broken = func() breakage {
		broke := goesOn
		if f.linesWritten() == 3 {
			once.Do(func() {
				f.refuse(apierrors.NewInternalError(fmt.Errorf("no connection")))
				close(cut)
				broke = isCut
			})
		}
		return broke
	}
	wait := f.follow(podlogs.Options{Tail: -1, Timestamps: true})
	f.waitFor(3)
	f.write("a/0", lines[3])
	<-cut
	// While there is no connection, it writes, ends and begins again.
	f.write("a/0", lines[4:6]...)
	f.change("a/0", func(log *containerLog) { log.ended = true })
	f.write("a/1", lines[6:]...)
	f.pod("a", 1, runs())
	f.untilRefused()
	f.refuse(nil)
	f.waitFor(9)
	f.succeeds("a", 1)
	if err := wait(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines, f.lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestALogThatMayNotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.pod("a", 0, runs())
	f.refuse(forbidden())
	if err := f.follow(all())(); !apierrors.IsForbidden(err) {
		t.Errorf("error: %v", err)
	}
}

func TestAPodThatNeverCameIsNotWaitedForAfterTheTask(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wait := f.follow(all())
	f.finish()
	if err := wait(); err != nil || len(f.lines) > 0 {
		t.Errorf("error %v, lines %v", err, f.lines)
	}
}

// refuse sets the answer to further requests.
func (f *fixture) refuse(refusal *apierrors.StatusError) {
	f.kubelet.mu.Lock()
	defer f.kubelet.mu.Unlock()
	f.refusal = refusal
}

func (f *fixture) linesWritten() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.lines)
}

// untilRefused waits until another request has been refused.
func (f *fixture) untilRefused() {
	f.Helper()
	requests := func() int {
		f.kubelet.mu.Lock()
		defer f.kubelet.mu.Unlock()
		return f.requests
	}
	before, deadline := requests(), time.Now().Add(limit)
	for requests() == before {
		if time.Now().After(deadline) {
			f.Fatal("there was no further request")
		}
		time.Sleep(time.Millisecond)
	}
}

// untilWarned waits for a warning.
func (f *fixture) untilWarned(text string) {
	f.Helper()
	deadline := time.Now().Add(limit)
	for {
		f.mu.Lock()
		warned := strings.Contains(strings.Join(f.warns, "\n"), text)
		f.mu.Unlock()
		if warned {
			return
		}
		if time.Now().After(deadline) {
			f.Fatalf("no warning %q", text)
		}
		time.Sleep(time.Millisecond)
	}
}
