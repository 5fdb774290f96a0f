// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"falldio.github.io/gpu-controller/bench/document"
)

// results compares all policies at each demand.
func (r *report) results() (string, error) {
	var b strings.Builder
	for _, demand := range []int{100, 95, 130} {
		table := document.Table{Header: append([]string{"trace"}, titlesOf([]string{random, dotProd, bestFit, fgd, ours})...)}
		table.Header = append(table.Header, "ours − FGD")
		for _, trace := range r.traces {
			row := []string{trace}
			all := map[string]float64{}
			for _, policy := range []string{random, dotProd, bestFit, fgd, ours} {
				c, err := r.replay(trace, usual(policy), r.seeds)
				if err != nil {
					return "", err
				}
				all[policy] = c.at(demand)
				row = append(row, document.Hundredths(c.at(demand)))
			}
			table.Add(append(row, document.Signed(all[ours]-all[fgd]))...)
		}
		fmt.Fprintf(&b, "Allocated GPUs in percent when %d %% were asked for, mean of %d seeds:\n\n%s\n", demand, r.seeds, &table)
	}
	return b.String(), nil
}

// reproduction compares our replay of the published policies with the published results.
func (r *report) reproduction() (string, error) {
	policies := []string{random, dotProd, bestFit, fgd}
	table := document.Table{Header: []string{"trace"}}
	for _, policy := range policies {
		table.Header = append(table.Header, titles[policy]+" published", "here")
	}
	for _, trace := range r.traces {
		row := []string{trace}
		for _, policy := range policies {
			c, err := r.replay(trace, usual(policy), r.seeds)
			if err != nil {
				return "", err
			}
			row = append(row, publishedCell(trace, policy), document.Hundredths(c.at(100)))
		}
		table.Add(row...)
	}
	return table.String(), nil
}

// publishedCell is empty for results that were not published.
func publishedCell(trace, policy string) string {
	if number, known := published[trace][policy]; known {
		return document.Hundredths(number)
	}
	return ""
}

// ties compares the rules for equally good nodes.
func (r *report) ties() (string, error) {
	table := document.Table{Header: []string{"trace"}}
	var entrants []entrant
	for _, policy := range []string{bestFit, fgd, ours} {
		for _, rule := range []string{byPublished, byName, byLot} {
			if policy == ours && rule == byLot {
				continue // ours has next to no ties
			}
			e := usual(policy)
			e.ties = rule
			entrants = append(entrants, e)
			table.Header = append(table.Header, titles[policy]+", "+rule)
		}
	}
	return r.compare(&table, entrants)
}

// mix compares learning the demand with knowing it in advance.
func (r *report) mix() (string, error) {
	table := document.Table{Header: []string{"trace"}}
	var entrants []entrant
	for _, policy := range []string{fgd, ours} {
		for _, mix := range []string{learned, known} {
			e := usual(policy)
			e.mix = mix
			entrants = append(entrants, e)
			table.Header = append(table.Header, titles[policy]+", "+mix)
		}
	}
	return r.compare(&table, entrants)
}

// compare fills a table with the allocation of all entrants at 100 % demand.
func (r *report) compare(table *document.Table, entrants []entrant) (string, error) {
	for _, trace := range r.traces {
		row := []string{trace}
		for _, e := range entrants {
			c, err := r.replay(trace, e, r.seeds)
			if err != nil {
				return "", err
			}
			row = append(row, document.Hundredths(c.at(100)))
		}
		table.Add(row...)
	}
	return table.String(), nil
}

// bounded compares ours with the bounds.
func (r *report) bounded() (string, error) {
	table := document.Table{Header: []string{"trace", "bound, may refuse", "bound, accepts all", "Pods that all fit", "FGD", "ours", "gap of FGD", "gap of ours"}}
	for _, trace := range r.traces {
		limit, err := r.limit(trace)
		if err != nil {
			return "", err
		}
		row := []string{trace, document.Hundredths(limit.refusing), document.Hundredths(limit.accepting), fmt.Sprint(limit.first)}
		var gaps []string
		for _, policy := range []string{fgd, ours} {
			c, err := r.replay(trace, usual(policy), 1)
			if err != nil {
				return "", err
			}
			row = append(row, document.Hundredths(c.at(100)))
			gaps = append(gaps, document.Hundredths(limit.accepting-c.at(100)))
		}
		table.Add(append(row, gaps...)...)
	}
	return table.String(), nil
}

// limit returns the bounds of a trace with the first seed, which are computed only once.
func (r *report) limit(trace string) (*bounds, error) {
	if known := r.limits[trace]; known != nil {
		return known, nil
	}
	w, err := r.workload(trace)
	if err != nil {
		return nil, err
	}
	r.limits[trace], err = w.bounds(r.seed)
	return r.limits[trace], err
}

// ablation shows the contribution of each parameter of ours.
func (r *report) ablation() (string, error) {
	table := document.Table{Header: append([]string{"without"}, r.examples...)}
	for _, without := range append([]string{""}, weights()...) {
		row := []string{without}
		if without == "" {
			row[0] = "(all there)"
		}
		for _, trace := range r.examples {
			e := usual(ours)
			e.without = without
			c, err := r.replay(trace, e, r.few)
			if err != nil {
				return "", err
			}
			row = append(row, document.Hundredths(c.at(100)))
		}
		table.Add(row...)
	}
	return table.String(), nil
}

// departed compares all policies in a steady state.
func (r *report) departed() (string, error) {
	timed, err := r.workload(r.traces[0])
	if err != nil {
		return "", err
	}
	r.load.timed = timed.pods
	table := document.Table{Header: []string{"trace", "policy", "allocated %", "mean wait s", "p99 wait s", "waited %", "waiting at the end"}}
	for _, trace := range r.examples {
		w, err := r.workload(trace)
		if err != nil {
			return "", err
		}
		for _, policy := range []string{random, dotProd, bestFit, fgd, ours} {
			e := usual(policy)
			mean, err := w.meanSteady(&e, &r.load, r.seed, r.few)
			if err != nil {
				return "", err
			}
			table.Add(trace, titles[policy], document.Hundredths(mean.allocated), fmt.Sprintf("%.0f", mean.meanWait), fmt.Sprintf("%.0f", mean.longWait),
				document.Hundredths(mean.waited), fmt.Sprint(mean.waiting))
		}
	}
	return table.String(), nil
}
