// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wanted tracks which targets Pods want to reach fast, so that only those are
// measured.
package wanted

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
)

// Config configures a List.
type Config struct {
	Clock clock.PassiveClock
	// Max is how many questions there may be.
	Max int
	// Remember is how long a question stays that no pending Pod has: the next Pods of the
	// same kind then find values.
	Remember time.Duration
}

// List holds the questions of Pods. It may be used from several goroutines.
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
	// namespace is that of who has asked it first.
	namespace string
	// pods is how many pending Pods have it.
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

// Added returns a channel that has an entry when there is a new question.
func (l *List) Added() <-chan struct{} { return l.added }

// Pending records a pending Pod and its question.
func (l *List) Pending(namespace string, pod types.UID, question estimate.Question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, found := l.pods[pod]; found {
		if before == question {
			return
		}
		l.gone(pod)
	}
	if one := l.ask(namespace, question); one != nil {
		one.pods++
		l.pods[pod] = question
	}
}

// Gone records that a Pod is no longer pending.
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

// Asked records the question of a Pod whose turn has come. A question for which there was
// no room gets in this way.
func (l *List) Asked(namespace string, question estimate.Question) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ask(namespace, question)
}

// ask adds a question, or renews it, and returns its interest; nil if there is no room
// for it.
func (l *List) ask(namespace string, question estimate.Question) *interest {
	now := l.config.Clock.Now()
	if one := l.questions[question]; one != nil {
		one.asked = now
		return one
	}
	if len(l.questions) >= l.config.Max && !l.makeRoom() && !l.displace(namespace) {
		return nil
	}
	one := &interest{namespace: namespace, asked: now}
	l.questions[question] = one
	select {
	case l.added <- struct{}{}:
	default: // it has an entry already
	}
	return one
}

// makeRoom drops the question that was asked least recently and has no pending Pods. It
// returns false if there is none.
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

// displace forgets the newest question of the namespace that has the most, if that still has as many as the given one
// afterwards: no namespace keeps all places with targets that nobody else needs.
func (l *List) displace(namespace string) bool {
	counts, most := map[string]int{}, ""
	for _, one := range l.questions {
		counts[one.namespace]++
	}
	for name, count := range counts {
		if count > counts[most] || count == counts[most] && name < most {
			most = name
		}
	}
	if counts[most] <= counts[namespace]+1 {
		return false
	}
	var newest *estimate.Question
	for question, one := range l.questions {
		if one.namespace == most && (newest == nil || before(*newest, l.questions[*newest], question, one)) {
			newest = &question
		}
	}
	delete(l.questions, *newest)
	maps.DeleteFunc(l.pods, func(_ types.UID, question estimate.Question) bool { return question == *newest })
	return true
}

func before(a estimate.Question, x *interest, b estimate.Question, y *interest) bool {
	return cmp.Or(x.asked.Compare(y.asked), compare(a, b)) < 0
}

func compare(a, b estimate.Question) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Module, b.Module))
}

// Questions returns what to measure, in order, and drops questions that have not been
// asked for long.
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

// Count returns how many questions there are.
func (l *List) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.questions)
}
