// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"maps"
	"math"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// Account is the GPU time that a queue has used.
type Account struct {
	// UID tells the queue from another one of the same name.
	UID types.UID
	// Own is the decayed GPU time of the queue's own Pods, All that with its descendants'. Both are
	// of the same time: what was used until then is counted.
	Own, All queueing.Usage
	// Total is All without decay, in GPU-seconds.
	Total float64
}

// Accounts are those of all queues, by name.
type Accounts map[string]*Account

// Load adds the accounts of queues that have none yet, as their status says. That of a queue
// without a status begins with its creation. It drops those of queues that no longer exist, and of
// others of the same name.
func (a Accounts) Load(queues []*v1.GPUQueue) {
	exist := sets.Set[string]{}
	for _, queue := range queues {
		exist.Insert(queue.Name)
		if a[queue.Name] == nil || a[queue.Name].UID != queue.UID {
			a[queue.Name] = accountOf(queue)
		}
	}
	maps.DeleteFunc(a, func(name string, _ *Account) bool { return !exist.Has(name) })
}

// mostHours is the GPU time of a million GPUs in a century. More, or what is not a number, is no sum of
// times.
const mostHours = 1e12

// accountOf reads a queue's account from its status.
func accountOf(queue *v1.GPUQueue) *Account {
	begin := queue.CreationTimestamp.Time
	usage := queue.Status.Usage
	if usage == nil || usage.AsOf.Time.Before(begin) {
		return &Account{UID: queue.UID, Own: queueing.Usage{At: begin}, All: queueing.Usage{At: begin}}
	}
	hours, err := strconv.ParseFloat(usage.GPUHours, 64)
	if err != nil || !(hours >= 0) || hours > mostHours {
		hours = 0 // somebody has written it by hand
	}
	return &Account{
		UID:   queue.UID,
		Own:   queueing.Usage{GPUSeconds: float64(max(0, usage.OwnGPUSeconds)), At: usage.AsOf.Time},
		All:   queueing.Usage{GPUSeconds: float64(max(0, usage.GPUSeconds)), At: usage.AsOf.Time},
		Total: hours * time.Hour.Seconds(),
	}
}

// Charge counts what Pods have held since the time of each account, up to now. It does not matter
// how long that is: what nobody has counted while no process ran is counted by the times of the
// Pods that still exist. An account of a time that is too far ahead goes on from now.
func (a Accounts) Charge(tree *queueing.Tree, holdings []Holding, now time.Time, halfLife time.Duration) {
	before := make(map[*Account]time.Time, len(a))
	for _, account := range a {
		if account.All.At.After(now.Add(queueing.MaxAhead)) {
			account.Own.At, account.All.At = now, now
		}
		before[account] = account.All.At
		account.Own, account.All = account.Own.DecayedTo(now, halfLife), account.All.DecayedTo(now, halfLife)
	}
	for i := range holdings {
		holding := &holdings[i]
		for _, queue := range tree.Path(holding.Queue) {
			if account := a[queue]; account != nil {
				account.add(holding, queue == holding.Queue, before[account], halfLife)
			}
		}
	}
}

// add counts what a Pod has held since a time, up to that of the account.
func (a *Account) add(holding *Holding, own bool, since time.Time, halfLife time.Duration) {
	from, until := holding.From, holding.Until
	if from.Before(since) {
		from = since
	}
	if until.After(a.All.At.Add(queueing.MaxAhead)) {
		return // it has ended, but not by its node's clock, which is wrong
	}
	if until.IsZero() || until.After(a.All.At) {
		until = a.All.At
	}
	if !until.After(from) {
		return
	}
	gpus := float64(holding.Amount) / float64(queueing.GPU)
	used := queueing.Usage{At: from}.Plus(gpus, until, halfLife).DecayedTo(a.All.At, halfLife).GPUSeconds
	a.All.GPUSeconds += used
	a.Total += gpus * until.Sub(from).Seconds()
	if own {
		a.Own.GPUSeconds += used
	}
}

// Factors returns the fair-share factor of each queue; none if nothing was used.
func (a Accounts) Factors(tree *queueing.Tree, waits func(queue string) bool) map[string]float64 {
	var shares []queueing.Share
	used := 0.0
	for _, queue := range tree.Queues() {
		share := queueing.Share{Name: queue, Weight: float64(tree.Weight(queue)), Waits: waits(queue)}
		if path := tree.Path(queue); len(path) > 1 {
			share.Parent = path[1]
		}
		if account := a[queue]; account != nil {
			share.Usage = account.Own.GPUSeconds
			used += share.Usage
		}
		shares = append(shares, share)
	}
	if used <= 0 {
		return nil
	}
	return queueing.Factors(shares)
}

// Factors returns the fair-share factors that the queues' statuses show, by name. Queues
// without one are left out.
func Factors(queues []*v1.GPUQueue) map[string]float64 {
	factors := make(map[string]float64, len(queues))
	for _, queue := range queues {
		if usage := queue.Status.Usage; usage != nil {
			if factor, err := strconv.ParseFloat(usage.Factor, 64); err == nil && factor >= 0 && !math.IsInf(factor, 0) {
				factors[queue.Name] = factor
			}
		}
	}
	return factors
}
