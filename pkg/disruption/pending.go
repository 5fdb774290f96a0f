// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// settleTime is after how long a budget's status is taken to show that a Pod was deleted.
const settleTime = 10 * time.Second

// Pending are evictions that the statuses of budgets may not show yet: until they do, they
// are subtracted from what the budgets allow, so that no allowance is spent twice. It is safe
// for concurrent use. Its zero value has none.
type Pending struct {
	mu sync.Mutex
	// accounts are those of budgets, by namespace and name.
	accounts map[string]*account
}

// account has the evictions that a budget's status may not show.
type account struct {
	// shown is what the status allowed when it was last seen.
	shown     int
	evictions []eviction
}

type eviction struct {
	uid types.UID
	// deleted is when the Pod was deleted; zero if it was not yet.
	deleted time.Time
}

// Add records that Pods are about to be evicted.
func (p *Pending) Add(budgets *Budgets, pods []*corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.accounts == nil {
		p.accounts = map[string]*account{}
	}
	for _, pod := range pods {
		for _, name := range budgets.Covering(pod) {
			one := p.accounts[name]
			if one == nil {
				one = &account{shown: budgets.shown[name]}
				p.accounts[name] = one
			}
			one.evictions = append(one.evictions, eviction{uid: pod.UID})
		}
	}
}

// Deleted records when a Pod was deleted.
func (p *Pending) Deleted(uid types.UID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.accounts {
		for i := range one.evictions {
			if one.evictions[i].uid == uid {
				one.evictions[i].deleted = now
			}
		}
	}
}

// Cancel records that Pods are not evicted after all.
func (p *Pending) Cancel(uids []types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.accounts {
		one.evictions = slices.DeleteFunc(one.evictions, func(e eviction) bool { return slices.Contains(uids, e.uid) })
	}
}

// Subtract subtracts the evictions that statuses don't show from what the budgets allow.
func (p *Pending) Subtract(budgets *Budgets, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, one := range p.accounts {
		shown, exists := budgets.shown[name]
		if one.settle(shown, now); !exists || len(one.evictions) == 0 {
			delete(p.accounts, name)
			continue
		}
		budgets.allowed[name] = max(0, shown-len(one.evictions))
	}
}

// SubtractOthers is Subtract without the evictions of some Pods, which are what is asked for. It forgets nothing: the
// budgets may be newer than those that Subtract gets.
func (p *Pending) SubtractOthers(budgets *Budgets, except []types.UID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, one := range p.accounts {
		shown, exists := budgets.shown[name]
		if !exists {
			continue
		}
		left := account{shown: one.shown, evictions: slices.Clone(one.evictions)}
		left.settle(shown, now)
		others := slices.DeleteFunc(left.evictions, func(e eviction) bool { return slices.Contains(except, e.uid) })
		budgets.allowed[name] = max(0, shown-len(others))
	}
}

// settle forgets evictions that a status shows: it allows fewer than before, or had the time
// to.
func (a *account) settle(shown int, now time.Time) {
	fewer := a.shown - shown
	a.shown = shown
	a.evictions = slices.DeleteFunc(a.evictions, func(e eviction) bool {
		if e.deleted.IsZero() {
			return false
		}
		fewer--
		return fewer >= 0 || now.Sub(e.deleted) >= settleTime
	})
}
