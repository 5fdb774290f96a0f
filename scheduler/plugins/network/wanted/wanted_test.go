// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package wanted

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
)

const remember = 10 * time.Minute

// list is a List whose questions have targets of one letter.
type list struct {
	*List
	t     *testing.T
	clock *clocktesting.FakeClock
}

func newList(t *testing.T, limit int) *list {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	return &list{t: t, clock: clock, List: New(Config{Clock: clock, Max: limit, Remember: remember})}
}

func question(target string) estimate.Question {
	return estimate.Question{Target: target, Module: "m"}
}

func (l *list) pending(pod, target string) { l.pendingIn("default", pod, target) }

func (l *list) pendingIn(namespace, pod, target string) {
	l.Pending(namespace, types.UID(pod), question(target))
}

func (l *list) asked(question estimate.Question) { l.Asked("default", question) }

func (l *list) expect(when, want string) {
	l.t.Helper()
	var targets []string
	for _, one := range l.Questions() {
		targets = append(targets, one.Target)
	}
	if got := strings.Join(targets, " "); got != want || l.Count() != len(targets) {
		l.t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func TestQuestionsStayWhilePodsWait(t *testing.T) {
	t.Parallel()
	l := newList(t, 10)
	l.expect("at first", "")
	l.pending("p1", "b")
	l.pending("p2", "b")
	l.pending("p2", "b") // an update
	l.pending("p3", "a")
	l.expect("with three Pods", "a b")
	l.clock.Step(10 * remember)
	l.expect("after long", "a b")
	l.Gone("p1")
	l.Gone("p1")
	l.clock.Step(remember)
	l.expect("one of two is gone", "a b")
	l.Gone("p2")
	l.clock.Step(remember - 1)
	l.expect("both were there just now", "a b")
	l.clock.Step(1)
	l.expect("both are forgotten", "a")
	l.pending("p3", "c")
	l.clock.Step(remember)
	l.expect("a Pod has changed its mind", "c")
	l.asked(question("d"))
	l.clock.Step(remember - 1)
	l.asked(question("d"))
	l.clock.Step(1)
	l.expect("a question is asked on", "c d")
}

func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	l := newList(t, 2)
	l.pending("p1", "a")
	l.pending("p2", "b")
	l.pending("p3", "c")
	l.expect("all places are taken", "a b")
	l.Gone("p3")
	l.asked(question("c"))
	l.expect("Pods wait for all of them", "a b")
	l.Gone("p1")
	l.asked(question("c"))
	l.expect("a place is free", "b c")
	l.Gone("p2")
	l.clock.Step(time.Second)
	l.asked(question("c"))
	l.pending("p4", "d")
	l.expect("the one that was asked before gives way", "c d")
}

func TestANamespaceDoesNotKeepAllPlaces(t *testing.T) {
	t.Parallel()
	l := newList(t, 4)
	for _, target := range []string{"e1", "e2", "e3", "e4", "e5"} {
		l.pendingIn("evil", "p-"+target, target)
		l.clock.Step(time.Second)
	}
	l.expect("one namespace wants more than there is", "e1 e2 e3 e4")
	l.pendingIn("victim", "v1", "a")
	l.pendingIn("victim", "v2", "b")
	l.expect("the newest ones give way", "a b e1 e2")
	l.pendingIn("victim", "v3", "c")
	l.pendingIn("evil", "p-e6", "e6")
	l.expect("both have as many", "a b e1 e2")
	l.Gone("p-e4") // its question was forgotten
	l.pendingIn("third", "t", "d")
	l.expect("a third one", "a b d e1")
}

func TestNewQuestionsAreTold(t *testing.T) {
	t.Parallel()
	l := newList(t, 10)
	signaled := func(when string, want bool) {
		t.Helper()
		select {
		case <-l.Added():
			if !want {
				t.Errorf("%s: signaled", when)
			}
		default:
			if want {
				t.Errorf("%s: not signaled", when)
			}
		}
	}
	signaled("at first", false)
	l.pending("p1", "a")
	l.pending("p2", "b")
	signaled("two new ones", true)
	signaled("only once", false)
	l.pending("p3", "a")
	l.asked(question("b"))
	signaled("known ones", false)
}
