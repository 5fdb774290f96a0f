// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"math/rand/v2"
	"slices"
	"time"
)

// agenda is what a stress test is going to do.
type agenda struct {
	random  *rand.Rand
	actions []action
}

// action is something to do at a given time. A lasting one is done even after the end of
// the test's period.
type action struct {
	at      time.Time
	do      func()
	lasting bool
}

// between returns a random duration between two numbers of milliseconds.
func (a *agenda) between(least, most int) time.Duration {
	return time.Duration(least+a.random.IntN(most-least+1)) * time.Millisecond
}

// every does something repeatedly, with a random number of milliseconds in between.
func (a *agenda) every(least, most int, do func()) {
	a.actions = append(a.actions, action{at: time.Now().Add(a.between(least, most)), do: func() {
		do()
		a.every(least, most, do)
	}})
}

// later does something once, even after the end of the test's period.
func (a *agenda) later(after time.Duration, do func()) {
	a.actions = append(a.actions, action{at: time.Now().Add(after), do: do, lasting: true})
}

// doDue does what is due.
func (a *agenda) doDue(now time.Time) {
	isDue := func(one action) bool { return !one.at.After(now) }
	due := slices.DeleteFunc(slices.Clone(a.actions), func(one action) bool { return !isDue(one) })
	a.actions = slices.DeleteFunc(a.actions, isDue)
	for _, one := range due {
		one.do()
	}
}

// keepLasting drops all but the lasting actions.
func (a *agenda) keepLasting() {
	a.actions = slices.DeleteFunc(a.actions, func(one action) bool { return !one.lasting })
}
