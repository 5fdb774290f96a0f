// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// results are measurements of the same scale.
type results []record

// resultsOf keeps the records that count: those at a scale, during which others used at
// most that many cores.
func resultsOf(records []record, scale, others float64) results {
	var kept results
	for i := range records {
		k, err := named(records[i].Kind)
		if err == nil && records[i].Gangs == k.scaled(scale).gangs && othersCores(&records[i]) <= others {
			kept = append(kept, records[i])
		}
	}
	return kept
}

// of returns the measurements of a system with a kind, by round: those with all
// gangs at once, or those at a rate.
func (r results) of(system string, k kind, atRate bool) []*record {
	var found []*record
	for i := range r {
		if m := &r[i]; m.System == system && m.Kind == k.String() && (m.Rate > 0) == atRate {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b *record) int { return a.Round - b.Round })
	return found
}

// median returns the median of a number over the measurements of a system, and false if
// there are none.
func (r results) median(system string, k kind, number func(*record) float64) (float64, bool) {
	var values []float64
	for _, m := range r.of(system, k, false) {
		values = append(values, number(m))
	}
	return median(values), len(values) > 0
}

// ratios returns, for each round with both, the number of one system divided by that of
// another.
func (r results) ratios(above, below string, k kind, number func(*record) float64) []float64 {
	var ratios []float64
	for _, a := range r.of(above, k, false) {
		for _, b := range r.of(below, k, false) {
			if a.Round == b.Round && number(b) > 0 {
				ratios = append(ratios, number(a)/number(b))
			}
		}
	}
	return ratios
}

// The numbers that are compared.
func seconds(r *record) float64   { return r.Seconds }
func reported(r *record) float64  { return r.Told }
func podRate(r *record) float64   { return float64(r.pods()) / r.Seconds }
func cpuPerPod(r *record) float64 { return 1000 * sum(r.CPU) / float64(r.pods()) }

// busyPerPod is the CPU time in ms per Pod in excess of that of the idle cluster, most of
// which is for the leases of the nodes.
func busyPerPod(r *record) float64 {
	return cpuPerPod(r) - 1000*r.Window*sum(r.Idle)/float64(r.pods())
}

func putsPerPod(r *record) float64   { return float64(r.Puts) / float64(r.pods()) }
func eventsPerPod(r *record) float64 { return float64(r.Events["Pod"]) / float64(r.pods()) }
func othersCores(r *record) float64  { return r.Others / r.Window }

// writesPerTask counts the writes of a GPUTask itself and of Events about it.
func writesPerTask(r *record) float64 {
	writes := r.Events["GPUTask"]
	for name, number := range r.Writes {
		if strings.HasPrefix(name, "gputasks") {
			writes += number
		}
	}
	return float64(writes) / float64(r.Gangs)
}

// writesPerPod counts all other writes.
func writesPerPod(r *record) float64 {
	return putsPerPod(r) - writesPerTask(r)*float64(r.Gangs)/float64(r.pods())
}

// spread formats the median and the range of values.
func spread(values []float64) string {
	switch len(values) {
	case 0:
		return "–"
	case 1:
		return fmt.Sprintf("%.2f", values[0])
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", median(values), slices.Min(values), slices.Max(values))
}
