// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Serve is Order for jobs of which it is not known yet which are guaranteed: of each queue, those that
// are served first as long as the queue stays within its guarantees with them (see Ledger.WithinGuarantee). It
// marks these jobs.
//
// asked are the GPUs that each job asks for, and the ledger is what the queues hold; it is not changed. A nil ledger
// guarantees nothing.
func (o Options) Serve(jobs []Job, asked []Amounts, factors map[string]float64, ledger *Ledger) []Ranked {
	ranked := o.Order(jobs, factors)
	if ledger == nil || !markGuaranteed(jobs, asked, ranked, ledger.Clone()) {
		return ranked
	}
	return o.Order(jobs, factors)
}

// markGuaranteed marks the jobs that are guaranteed, and enters them into the ledger. It reports whether there are any.
func markGuaranteed(jobs []Job, asked []Amounts, ranked []Ranked, ledger *Ledger) (found bool) {
	exhausted := map[string]bool{} // queues whose next job is beyond the guarantee, by the models that it asks for
	for _, one := range ranked {
		job, request := &jobs[one.Index], asked[one.Index]
		key := fmt.Sprintf("%s %s", job.Queue, strings.Join(slices.Sorted(maps.Keys(request)), " "))
		if exhausted[key] {
			continue
		}
		if !ledger.WithinGuarantee(job.Queue, request) {
			exhausted[key] = true
			continue
		}
		for model, amount := range request {
			ledger.Add(job.Queue, model, amount)
		}
		job.Guaranteed, found = true, true
	}
	return found
}
