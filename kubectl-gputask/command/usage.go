// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
	"falldio.github.io/gpu-controller/pkg/accounting"
)

// Further values of --output.
const (
	outputTable = "table"
	outputCSV   = "csv"
)

type usageOf struct {
	*session
	output
	by           string
	since, until string
}

func newUsage(s *session) *cobra.Command {
	u := &usageOf{session: s}
	command := &cobra.Command{
		Use:   "usage",
		Short: "Show used GPU-hours by queue, namespace, task, model or label",
		Long: `Show used GPU-hours by queue, namespace, task, GPU model or label.

GPU-hours count from when a Pod gets its GPUs until it releases them. WAITING is the time that
Pods waited for GPUs, times the number of GPUs. LOST is the part of the GPU-hours whose work
was lost: what failed, preempted or moved Pods had done since their last checkpoint.

gpu-controller updates the numbers every minute, by the hour, and keeps them for 100 days;
the period is extended to whole hours. Labels are only counted if they are listed in
gpu-controller's flag --usage-labels. Reading the numbers requires the Role gpu-usage-view in
the namespace gpu-controller-usage. With --namespace, only that namespace is counted.`,
		Example: `  kubectl gputask usage --by queue --since 7d
  kubectl gputask usage --by task --namespace vision --since 2026-11-01 --until 2026-12-01 -o csv
  kubectl gputask usage --by model,label:team --since 24h`,
		GroupID:           groupCluster,
		Args:              cobra.NoArgs,
		ValidArgsFunction: noCompletion,
		RunE:              func(command *cobra.Command, _ []string) error { return u.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVar(&u.by, "by", accounting.ByQueue, "what to group by: queue, namespace, task, model or label:KEY; several are separated by commas")
	flags.StringVar(&u.since, "since", "7d", "start of the period: how long ago, for example 7d or 12h, or a time in UTC, for example 2026-11-01 or 2026-11-01T12:00:00Z")
	flags.StringVar(&u.until, "until", "0h", "end of the period, in the same formats")
	complete(command, "by", fixed(accounting.ByQueue, accounting.ByNamespace, accounting.ByTask, accounting.ByModel, accounting.LabelPrefix))
	complete(command, "since", noCompletion)
	complete(command, "until", noCompletion)
	u.add(command, slices.Concat([]string{outputTable, outputCSV, outputJSON, outputYAML}, templates))
	return command
}

func (u *usageOf) run(ctx context.Context) error {
	if u.format == outputTable {
		u.format = outputText
	}
	if u.format != outputCSV {
		if err := u.validate(); err != nil {
			return err
		}
	}
	query, err := u.query()
	if err != nil {
		return err
	}
	clients, err := u.connect()
	if err != nil {
		return err
	}
	books, err := cluster.Books(ctx, clients, query.Since, query.Until)
	if err != nil {
		return err
	}
	report := accounting.Summarize(books, query)
	switch {
	case u.format == outputCSV:
		return u.writeCSV(report)
	case u.isText():
		show.Usage(u.page(), report)
		return nil
	default:
		return u.printValue(u.Out, usageValue(report))
	}
}

func (u *usageOf) query() (*accounting.Query, error) {
	by, err := accounting.ParseBy(u.by)
	if err != nil {
		return nil, fmt.Errorf("--by: %w", err)
	}
	query := &accounting.Query{By: by, Namespace: *u.config.Namespace}
	now := u.Clock.Now()
	if query.Since, err = moment(u.since, now); err != nil {
		return nil, fmt.Errorf("--since=%s: %w", u.since, err)
	}
	if query.Until, err = moment(u.until, now); err != nil {
		return nil, fmt.Errorf("--until=%s: %w", u.until, err)
	}
	if !query.Since.Before(query.Until) {
		return nil, fmt.Errorf("--since=%s --until=%s: the period must begin before it ends", u.since, u.until)
	}
	query.Since, query.Until = accounting.Whole(query.Since, query.Until)
	return query, nil
}

// moment reads a time: how long ago it is, a date, or a date with time.
func moment(text string, now time.Time) (time.Time, error) {
	const day = 24 * time.Hour
	if days, found := strings.CutSuffix(text, "d"); found {
		if count, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.Add(-time.Duration(count) * day), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf(`must be how long ago, for example "7d" or "12h", or a time, "2026-11-01" or "2026-11-01T12:00:00Z"`)
}

// usageValue returns a report as it is written in JSON and YAML.
func usageValue(report *accounting.Report) any {
	rows := make([]map[string]any, len(report.Rows))
	for i := range report.Rows {
		rows[i] = hoursOf(report.Rows[i].Amounts)
		for j, dimension := range report.By {
			rows[i][dimension] = report.Rows[i].Values[j]
		}
	}
	value := map[string]any{"since": report.Since, "until": report.Until, "rows": rows, "total": hoursOf(report.Total)}
	if !report.CountedUntil.IsZero() {
		value["countedSince"], value["countedUntil"] = report.CountedSince, report.CountedUntil
	}
	return value
}

func hoursOf(amounts accounting.Amounts) map[string]any {
	return map[string]any{"gpuHours": amounts.Used.Hours(), "waitingGPUHours": amounts.Waiting.Hours(), "lostGPUHours": amounts.Lost.Hours()}
}

// writeCSV writes one line for each row below a heading.
func (u *usageOf) writeCSV(report *accounting.Report) error {
	lines := [][]string{slices.Concat(report.By, []string{"gpu_hours", "waiting_gpu_hours", "lost_gpu_hours"})}
	exact := func(time accounting.Time) string { return strconv.FormatFloat(time.Hours(), 'f', 6, 64) }
	for i := range report.Rows {
		row := &report.Rows[i]
		lines = append(lines, slices.Concat(row.Values, []string{exact(row.Used), exact(row.Waiting), exact(row.Lost)}))
	}
	if err := csv.NewWriter(u.Out).WriteAll(lines); err != nil {
		return fmt.Errorf("writing the usage: %w", err)
	}
	return nil
}
