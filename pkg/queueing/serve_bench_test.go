// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

// organisation returns 1,000 queues on three levels: 10 roots with 9 children each, which have 10 each, and a few more.
// All have guarantees and limits, and hold about what they are guaranteed.
func organisation() *queueing.Ledger {
	quotas := func(guaranteed int) map[string]queueing.Quota {
		return map[string]queueing.Quota{
			queueing.AnyModel: {Guaranteed: gpus(guaranteed), Limit: gpus(2 * guaranteed)}, "h100": {Guaranteed: gpus(guaranteed / 2), Limit: queueing.Unlimited},
		}
	}
	var queues []queueing.Queue
	for i := range 10 {
		root := fmt.Sprintf("q%d", i)
		queues = append(queues, queueing.Queue{Name: root, Quotas: quotas(800)})
		for j := range 9 {
			team := fmt.Sprintf("%s-%d", root, j)
			queues = append(queues, queueing.Queue{Name: team, Parent: root, Weight: j + 1, Quotas: quotas(80)})
			for k := range 10 {
				queues = append(queues, queueing.Queue{Name: fmt.Sprintf("%s-%d", team, k), Parent: team, Quotas: quotas(8)})
			}
		}
	}
	l, random := queueing.NewLedger(queueing.NewTree(queues)), rand.New(rand.NewPCG(1, 6))
	for i := range queues {
		l.Add(queues[i].Name, randomModels[random.IntN(2)], queueing.Amount(random.IntN(16))*queueing.GPU)
	}
	return l
}

// BenchmarkDecide10000In1000Queues is one decision: the order of what waits, whether the first may start, and who gives
// back for it.
func BenchmarkDecide10000In1000Queues(b *testing.B) {
	l, random := organisation(), rand.New(rand.NewPCG(2, 6))
	queues := l.Tree().Queues()
	jobs, asked, factors := make([]queueing.Job, 10_000), make([]queueing.Amounts, 10_000), map[string]float64{}
	for _, queue := range queues {
		factors[queue] = 2 * random.Float64()
	}
	for i := range jobs {
		size := 1 << random.IntN(4)
		jobs[i] = job(fmt.Sprint(i), queues[random.IntN(len(queues))], int32(random.IntN(3)), random.IntN(10_000), float64(size), time.Duration(random.IntN(1000))*time.Minute)
		asked[i] = queueing.Amounts{randomModels[random.IntN(3)]: gpus(size)}
	}
	b.ReportMetric(float64(len(queues)), "queues")
	for b.Loop() {
		first := queueing.Options{}.Serve(jobs, asked, factors, l)[0].Index
		l.Fits(jobs[first].Queue, asked[first])
		l.Reclaimable(jobs[first].Queue, asked[first])
	}
}
