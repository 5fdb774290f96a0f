// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// inQueues are, for each queue, the latest times that were said to those before in it.
type inQueues map[string]v1.StartEstimate

// adjust makes sure that an estimate contradicts none of those before: who is not expected to pass them starts when
// they do at the earliest. Each estimate is corrected by how others turned out, and says what was expected when it
// was written: so they may differ a little although the order does not.
func (q inQueues) adjust(next *v1.StartEstimate) {
	before, some := q[next.Queue]
	if !some || next.Backfill && next.Likely.Before(&before.Likely) {
		return
	}
	next.Backfill = false
	next.Earliest, next.Likely, next.Latest = later(next.Earliest, before.Earliest), later(next.Likely, before.Likely), later(next.Latest, before.Latest)
}

// contradicts reports whether an estimate that is shown contradicts one before; it may be nil.
func (q inQueues) contradicts(shown *v1.StartEstimate) bool {
	if shown == nil || shown.Backfill {
		return false
	}
	before, some := q[shown.Queue]
	return some && shown.Likely.Before(&before.Likely)
}

// add adds the estimate that is shown for the next gang; nil for none.
func (q inQueues) add(shown *v1.StartEstimate) {
	if shown == nil {
		return
	}
	before := q[shown.Queue]
	q[shown.Queue] = v1.StartEstimate{
		Earliest: later(before.Earliest, shown.Earliest), Likely: later(before.Likely, shown.Likely), Latest: later(before.Latest, shown.Latest),
	}
}

func later(a, b metav1.Time) metav1.Time {
	if a.Before(&b) {
		return b
	}
	return a
}
