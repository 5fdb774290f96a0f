// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/pkg/accounting"
)

// maxCurves is how many names have curves of their own: more can't be told apart.
const maxCurves = 7

// CurvesOf returns the curves of the names that had most GPUs, and one of all others.
func CurvesOf(splits []Split) rows.Curves {
	names := largestNames(splits)
	index := make(map[string]int, len(names))
	curves := rows.Curves{Times: make([]metav1.Time, len(splits)), Series: make([]rows.Series, len(names))}
	for i, name := range names {
		index[name] = i
		curves.Series[i] = rows.Series{Name: name, GPUs: make([]float64, len(splits))}
	}
	others, some := rows.Series{Name: accounting.Others, GPUs: make([]float64, len(splits))}, false
	for i := range splits {
		curves.Times[i] = metav1.NewTime(splits[i].Time.UTC())
		for _, part := range splits[i].Parts {
			to := others
			if at, drawn := index[part.Name]; drawn {
				to = curves.Series[at]
			} else {
				some = some || part.Allocated > 0
			}
			to.GPUs[i] = math.Round(100*(to.GPUs[i]+part.Allocated)) / 100
		}
	}
	if some {
		curves.Series = append(curves.Series, others)
	}
	return curves
}

// largestNames returns the names that had GPUs, those with the most first, at most maxCurves.
func largestNames(splits []Split) []string {
	sums := map[string]float64{}
	for i := range splits {
		for _, part := range splits[i].Parts {
			if part.Allocated > 0 && part.Name != accounting.Others {
				sums[part.Name] += part.Allocated
			}
		}
	}
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(-cmp.Compare(sums[a], sums[b]), cmp.Compare(a, b)) })
	return names[:min(len(names), maxCurves)]
}
