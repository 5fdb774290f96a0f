// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
	"falldio.github.io/gpu-controller/pkg/accounting"
)

const (
	// usageFor is how long a report is good for: the books are written once a minute.
	usageFor = time.Minute
	// maxReports is how many are remembered.
	maxReports = 32
)

// reports reads how much GPU time was used, with the rights of each viewer. It is safe for concurrent use.
type reports struct {
	// reading is held by who reads books: they are large.
	reading sync.Mutex
	known   *cache.LRUExpireCache
}

func newReports(clock clock.Clock) *reports {
	return &reports{known: cache.NewLRUExpireCacheWithClock(maxReports, clock)}
}

// of returns the usage in a dimension; of all together if it is that of the whole cluster.
func (r *reports) of(ctx context.Context, viewer *access.Viewer, dimension string, since, until time.Time) (*accounting.Report, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	key := strings.Join([]string{viewer.Name, viewer.Clients.Config.BearerToken, dimension, until.Sub(since).String()}, "\x00")
	if known, found := r.known.Get(key); found {
		return known.(*accounting.Report), nil
	}
	query := &accounting.Query{Since: since, Until: until}
	if dimension != wholeCluster {
		query.By = []string{dimension}
	}
	query.Since, query.Until = accounting.Whole(since, until)
	books, err := cluster.Books(ctx, viewer.Clients, query.Since, query.Until)
	if err != nil {
		return nil, err
	}
	report := accounting.Summarize(books, query)
	r.known.Add(key, report, usageFor)
	return report, nil
}
