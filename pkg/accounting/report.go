// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Dimensions by which usage can be told. LabelPrefix is followed by the name of a label.
const (
	ByQueue     = "queue"
	ByNamespace = "namespace"
	ByTask      = "task"
	ByModel     = "model"
	LabelPrefix = "label:"
)

// Query is a question about usage.
type Query struct {
	// By are the dimensions.
	By []string
	// Namespace is the only one that counts; empty for all.
	Namespace string
	// Since and Until bound the time, in whole hours.
	Since, Until time.Time
}

// ParseBy reads dimensions, "queue" or "namespace,label:team". A task is told by its namespace, too.
func ParseBy(text string) ([]string, error) {
	var by []string
	for dimension := range strings.SplitSeq(text, ",") {
		name, isLabel := strings.CutPrefix(dimension, LabelPrefix)
		switch {
		case isLabel && name != "", dimension == ByQueue, dimension == ByNamespace, dimension == ByModel:
		case dimension == ByTask:
			if !slices.Contains(by, ByNamespace) {
				by = append(by, ByNamespace)
			}
		default:
			return nil, fmt.Errorf("%q: must be %s, %s, %s, %s or %sKEY, or several of them with commas", dimension, ByQueue, ByNamespace, ByTask, ByModel, LabelPrefix)
		}
		if !slices.Contains(by, dimension) {
			by = append(by, dimension)
		}
	}
	return by, nil
}

// Report is the answer to a Query.
type Report struct {
	By []string
	// Since and Until are those of the query, in whole hours. CountedSince and CountedUntil bound what there is to
	// tell; both are zero if there is nothing.
	Since, Until               time.Time
	CountedSince, CountedUntil time.Time
	// Rows have the most GPU time first.
	Rows  []Row
	Total Amounts
}

// Row is the usage of what has the same values in all dimensions.
type Row struct {
	// Values are those in the dimensions of the report; empty for none.
	Values []string
	Amounts
}

// Whole returns a period that consists of whole hours and includes the given one.
func Whole(since, until time.Time) (time.Time, time.Time) {
	since, until = since.UTC().Truncate(time.Hour), until.UTC()
	if rounded := until.Truncate(time.Hour); rounded.Before(until) {
		until = rounded.Add(time.Hour)
	}
	return since, until
}

// Summarize answers a query.
func Summarize(books []*Book, query *Query) *Report {
	report := &Report{By: query.By}
	report.Since, report.Until = Whole(query.Since, query.Until)
	sums := map[string]*Row{}
	for _, book := range books {
		if !book.Day.Before(report.Until) || !book.End().After(report.Since) {
			continue
		}
		report.extend(book)
		book.Each(func(key Key, hour time.Time, amounts Amounts) {
			if hour.Before(report.Since) || !hour.Before(report.Until) || query.Namespace != "" && key.Namespace != query.Namespace {
				return
			}
			values := valuesOf(key, query.By)
			name := strings.Join(values, "\x00")
			if sums[name] == nil {
				sums[name] = &Row{Values: values}
			}
			sums[name].Amounts = sums[name].Plus(amounts)
			report.Total = report.Total.Plus(amounts)
		})
	}
	for _, row := range slices.SortedFunc(maps.Values(sums), compareRows) {
		report.Rows = append(report.Rows, *row)
	}
	return report
}

// extend extends what there is to tell by what a book has counted of the report's time.
func (r *Report) extend(book *Book) {
	from, until := book.From, book.AsOf
	if from.Before(r.Since) {
		from = r.Since
	}
	if until.After(r.Until) {
		until = r.Until
	}
	if !from.Before(until) {
		return
	}
	if r.CountedSince.IsZero() || from.Before(r.CountedSince) {
		r.CountedSince = from
	}
	if until.After(r.CountedUntil) {
		r.CountedUntil = until
	}
}

func compareRows(x, y *Row) int {
	return cmp.Or(cmp.Compare(y.Used, x.Used), cmp.Compare(y.Waiting, x.Waiting), slices.Compare(x.Values, y.Values))
}

func valuesOf(key Key, by []string) []string {
	values := make([]string, len(by))
	for i, dimension := range by {
		switch dimension {
		case ByQueue:
			values[i] = key.Queue
		case ByNamespace:
			values[i] = key.Namespace
		case ByTask:
			values[i] = key.Task
		case ByModel:
			values[i] = key.Model
		default:
			values[i] = labelIn(key.Labels, strings.TrimPrefix(dimension, LabelPrefix))
		}
	}
	return values
}

// FormatLabels returns those of some labels that are accounted, as in a Key.
func FormatLabels(labels map[string]string, accounted []string) string {
	var parts []string
	for _, name := range slices.Sorted(slices.Values(accounted)) {
		if value, found := labels[name]; found {
			parts = append(parts, name+"="+value)
		}
	}
	return strings.Join(slices.Compact(parts), ",")
}

// labelIn returns the value of a label in a Key's; empty if it is not there.
func labelIn(labels, name string) string {
	for part := range strings.SplitSeq(labels, ",") {
		if value, found := strings.CutPrefix(part, name+"="); found {
			return value
		}
	}
	return ""
}
