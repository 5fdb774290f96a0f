// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/pkg/accounting"
	"falldio.github.io/gpu-controller/pkg/gpumodel"
)

// source is where Prometheus' numbers of a dimension come from.
type source struct {
	// query has a series for each value of label.
	query, label string
	// missing is what to look for if Prometheus has no values.
	missing string
}

// shortestRate is over how long a rate is taken at least: the books are written once a minute.
const shortestRate = 5 * time.Minute

// sourceOf returns where the numbers of a dimension come from. Queues and namespaces are counted from the books, so
// that a queue does not have what its children hold.
func sourceOf(dimension string, step time.Duration) source {
	if dimension == accounting.ByModel {
		return source{
			query: "sum by (modelName) (" + allocatedByGPU + " * on (UUID) group_left (modelName) max by (UUID, modelName) (falldio_gpu_info))",
			label: "modelName", missing: "falldio_gpu_holder_share_ratio and falldio_gpu_info, which the node agents export",
		}
	}
	seconds := int(max(shortestRate, step).Seconds())
	return source{
		query: fmt.Sprintf("sum by (%s) (rate(gpu_controller_usage_gpu_seconds_total[%ds]))", dimension, seconds),
		label: dimension, missing: "gpu_controller_usage_gpu_seconds_total, which gpu-controller exports unless its flag --usage-period is 0",
	}
}

// Splits returns the parts in a dimension from one time to another, and, if there are none, which metrics are missing.
func (p *Prometheus) Splits(ctx context.Context, dimension string, from, to time.Time) (splits []Split, missing string, _ error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	step := stepOf(from, to)
	wanted := sourceOf(dimension, step)
	var largest []series
	var total map[int64]float64
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		largest, err = p.ask(ctx, fmt.Sprintf("topk(%d, %s)", rows.MaxParts, wanted.query), from, to, step)
		return err
	})
	group.Go(func() (err error) {
		total, err = p.query(ctx, "sum("+wanted.query+")", from, to, step)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, "", err
	}
	if len(total) == 0 {
		return []Split{}, wanted.missing, nil
	}
	return splitsOf(largest, total, wanted.label), "", nil
}

// splitsOf returns the parts of the largest series at each time, and what is left of the total as one more.
func splitsOf(largest []series, total map[int64]float64, label string) []Split {
	byTime := make(map[int64]map[string]float64, len(total))
	for i := range largest {
		name := largest[i].Metric[label]
		if label == "modelName" {
			name = gpumodel.Normalize(name)
		}
		largest[i].each(func(at int64, value float64) {
			if _, known := total[at]; !known || value <= 0 {
				return
			}
			if byTime[at] == nil {
				byTime[at] = map[string]float64{}
			}
			byTime[at][name] += value
		})
	}
	splits := make([]Split, 0, len(total))
	for _, at := range slices.Sorted(maps.Keys(total)) {
		splits = append(splits, Split{Time: time.Unix(at, 0), Parts: partsOf(byTime[at], total[at])})
	}
	return splits
}

// rounding is less than what one sees of a GPU.
const rounding = 0.005

func partsOf(byName map[string]float64, total float64) []rows.Part {
	var parts []rows.Part
	for name, value := range byName {
		parts = append(parts, rows.Part{Name: name, Allocated: value})
		total -= value
	}
	if total > rounding {
		parts = append(parts, rows.Part{Name: accounting.Others, Allocated: total})
	}
	return rows.Largest(parts)
}
