// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wanted knows which targets Pods want to reach fast, so that only those
// are measured.
package wanted

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
)

// Config says how a List works.
type Config struct {
	Clock clock.PassiveClock
	// Max is how many questions there are at most.
	Max int
	// Remember is for how long a question stays that no pending Pod asks: the
	// next Pods of the same kind find values then.
	Remember time.Duration
}

// List is what Pods ask. It may be used from several goroutines.
type List struct {
	config Config
	// added has an entry when there is a new question.
	added chan struct{}

	mu        sync.Mutex
	questions map[estimate.Question]*interest
	pods      map[types.UID]estimate.Question
}

// interest is how much a question matters.
type interest struct {
	// pods is how many pending Pods ask it.
	pods int
	// asked is when it was asked last.
	asked time.Time
}

// New returns an empty List.
func New(config Config) *List {
	return &List{
		config: config, added: make(chan struct{}, 1),
		questions: map[estimate.Question]*interest{}, pods: map[types.UID]estimate.Question{},
	}
}

// Added has an entry when there is a new question.
func (l *List) Added() <-chan struct{} { return l.added }

// Pending takes in that a Pod waits and what it asks.
func (l *List) Pending(pod types.UID, question estimate.Question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, found := l.pods[pod]; found {
		if before == question {
			return
		}
		l.gone(pod)
	}
	if one := l.ask(question); one != nil {
		one.pods++
		l.pods[pod] = question
	}
}

// Gone takes in that a Pod waits no longer.
func (l *List) Gone(pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone(pod)
}

func (l *List) gone(pod types.UID) {
	question, found := l.pods[pod]
	if !found {
		return
	}
	delete(l.pods, pod)
	one := l.questions[question]
	one.pods--
	one.asked = l.config.Clock.Now()
}

// Asked takes in that a Pod's turn has come and what it asks. It is how a
// question gets in for which there was no room.
func (l *List) Asked(question estimate.Question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ask(question)
}

// ask returns the interest in a question; nil if there is no room for it.
func (l *List) ask(question estimate.Question) *interest {
	now := l.config.Clock.Now()
	if one := l.questions[question]; one != nil {
		one.asked = now
		return one
	}
	if len(l.questions) >= l.config.Max && !l.makeRoom() {
		return nil
	}
	one := &interest{asked: now}
	l.questions[question] = one
	select {
	case l.added <- struct{}{}:
	default: // somebody is on the way
	}
	return one
}

// makeRoom drops the question that was not asked for the longest time, unless
// Pods wait for all of them.
func (l *List) makeRoom() bool {
	var oldest *estimate.Question
	for question, one := range l.questions {
		if one.pods > 0 {
			continue
		}
		if oldest == nil || before(question, one, *oldest, l.questions[*oldest]) {
			oldest = &question
		}
	}
	if oldest == nil {
		return false
	}
	delete(l.questions, *oldest)
	return true
}

func before(a estimate.Question, x *interest, b estimate.Question, y *interest) bool {
	return cmp.Or(x.asked.Compare(y.asked), compare(a, b)) < 0
}

func compare(a, b estimate.Question) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Module, b.Module))
}

// Questions returns what to measure, in order, and forgets what nobody has asked
// for long.
func (l *List) Questions() []estimate.Question {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.config.Clock.Now()
	list := make([]estimate.Question, 0, len(l.questions))
	for question, one := range l.questions {
		if one.pods == 0 && now.Sub(one.asked) >= l.config.Remember {
			delete(l.questions, question)
			continue
		}
		list = append(list, question)
	}
	slices.SortFunc(list, compare)
	return list
}

// Count is how many questions there are.
func (l *List) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.questions)
}
