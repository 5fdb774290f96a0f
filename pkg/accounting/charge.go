// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

// Pod is what a Pod with GPUs has done. Times are zero for what has not happened.
type Pod struct {
	// Key is what its GPU time is accounted to. WantedModel is the model while it waits.
	Key         Key
	WantedModel string
	GPUs        queueing.Amount
	// Submitted is since when it waits; zero if it does not.
	Submitted time.Time
	// Started is when it got its GPUs, Ended when it gave them back or stopped to wait.
	Started, Ended time.Time
	// LostSince is the begin of the work that was lost when it ended; zero if none was.
	LostSince time.Time
}

// Charge counts what Pods have done since the Book's AsOf, up to another time or the end of the day, which becomes
// AsOf. It does nothing if that is not later.
func (b *Book) Charge(pods []Pod, until time.Time) {
	until = until.UTC().Truncate(time.Second)
	if until.After(b.End()) {
		until = b.End()
	}
	if !until.After(b.AsOf) {
		return
	}
	for i := range pods {
		b.charge(&pods[i], until)
	}
	b.AsOf = until
}

func (b *Book) charge(pod *Pod, until time.Time) {
	ended := pod.Ended
	if ended.IsZero() {
		ended = until
	}
	waiting := pod.Key
	waiting.Model = pod.WantedModel
	waited := pod.Started
	if waited.IsZero() || waited.After(ended) {
		waited = ended
	}
	if !pod.Submitted.IsZero() {
		b.spread(pod.Submitted, waited, until, func(at time.Time, seconds int64) {
			b.Add(waiting, at, Amounts{Waiting: Time(seconds) * Time(pod.GPUs)})
		})
	}
	if pod.Started.IsZero() {
		return
	}
	b.spread(pod.Started, ended, until, func(at time.Time, seconds int64) {
		b.Add(pod.Key, at, Amounts{Used: Time(seconds) * Time(pod.GPUs)})
	})
	if at := second(pod.Ended); !pod.LostSince.IsZero() && !at.Before(b.AsOf) && at.Before(until) {
		b.Add(pod.Key, at, Amounts{Lost: Time(pod.lost()/time.Second) * Time(pod.GPUs)})
	}
}

// lost returns for how long a Pod worked in vain. That is not more than it held its GPUs.
func (p *Pod) lost() time.Duration {
	since := second(p.LostSince)
	if started := second(p.Started); started.After(since) {
		since = started
	}
	return max(second(p.Ended).Sub(since), 0)
}

// spread calls a function with how many seconds of a period are in each hour of what is to be counted: from AsOf to
// until.
func (b *Book) spread(from, to, until time.Time, add func(hour time.Time, seconds int64)) {
	from, to = second(from), second(to)
	if from.Before(b.AsOf) {
		from = b.AsOf
	}
	if to.After(until) {
		to = until
	}
	for from.Before(to) {
		end := from.Truncate(time.Hour).Add(time.Hour)
		if end.After(to) {
			end = to
		}
		add(from, int64(end.Sub(from)/time.Second))
		from = end
	}
}

// second returns a time without the fraction of its second.
func second(at time.Time) time.Time { return at.UTC().Truncate(time.Second) }
