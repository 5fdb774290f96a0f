// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// dashboard is what the tests need of Grafana's JSON model; test/monitoring has others about its form.
type dashboard struct {
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	Targets []struct {
		RefID string `json:"refId"`
		Expr  string `json:"expr"`
	} `json:"targets"`
}

func readDashboard(t *testing.T) *dashboard {
	t.Helper()
	data, err := os.ReadFile("../../artifacts/grafana/gpu-controller.json")
	if err != nil {
		t.Fatal(err)
	}
	board := &dashboard{}
	if err := json.Unmarshal(data, board); err != nil {
		t.Fatal(err)
	}
	return board
}

// expressions returns all PromQL of a dashboard by where it is.
func expressions(board *dashboard) map[string]string {
	all := map[string]string{}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			all[fmt.Sprintf("panel %d %q, target %s", panel.ID, panel.Title, target.RefID)] = target.Expr
		}
	}
	for _, variable := range board.Templating.List {
		if variable.Definition != "" {
			all["variable "+variable.Name] = variable.Definition
		}
	}
	return all
}

// exported returns the labels of each series that the collector exports.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	families, err := gather(collectorOf(true, everything(t, 1)))
	if err != nil {
		t.Fatal(err)
	}
	series := map[string][]string{}
	for _, family := range families {
		var labels []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		if family.GetType() == dto.MetricType_SUMMARY {
			series[family.GetName()+"_sum"], series[family.GetName()+"_count"] = labels, labels
			continue
		}
		series[family.GetName()] = labels
	}
	return series
}

var (
	quoted   = regexp.MustCompile(`"[^"]*"`)
	duration = regexp.MustCompile(`\[[^\]]*\]`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	labelsOf = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	selector = regexp.MustCompile(`([A-Za-z_:][\w:]*)\s*(\{[^}]*\}|\(|)`)
	word     = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// selected returns the series that an expression selects, with the labels that
// it expects them to have.
func selected(expression string) (series map[string][]string, labels []string) {
	if match := labelsOf.FindStringSubmatch(expression); match != nil {
		expression, labels = match[1], []string{match[2]}
	}
	expression = duration.ReplaceAllString(quoted.ReplaceAllString(expression, ""), "")
	for _, match := range grouping.FindAllStringSubmatch(expression, -1) {
		labels = append(labels, word.FindAllString(match[1], -1)...)
	}
	expression = grouping.ReplaceAllString(expression, " ")
	expression = regexp.MustCompile(`\b\d+(\.\d+)?(e\d+)?\b`).ReplaceAllString(expression, "")
	series = map[string][]string{}
	for _, match := range selector.FindAllStringSubmatch(expression, -1) {
		if match[2] == "(" || slices.Contains([]string{"or", "and", "unless", "bool"}, match[1]) || isAggregation(match[1]) {
			continue
		}
		series[match[1]] = append(series[match[1]], word.FindAllString(match[2], -1)...)
	}
	return series, labels
}

// isAggregation is true for an operator, which need not stand right before its
// parenthesis.
func isAggregation(name string) bool {
	return slices.Contains([]string{"sum", "avg", "min", "max", "count"}, name)
}

func TestDashboardAsksForWhatIsExported(t *testing.T) {
	t.Parallel()
	have := exported(t)
	asked := map[string]bool{}
	for where, expression := range expressions(readDashboard(t)) {
		series, labels := selected(expression)
		if len(series) == 0 {
			t.Errorf("%s selects nothing: %s", where, expression)
		}
		var common []string
		for name, matched := range series {
			asked[name] = true
			if _, found := have[name]; !found {
				t.Errorf("%s: there is no series %s", where, name)
			}
			for _, label := range matched {
				if !slices.Contains(have[name], label) {
					t.Errorf("%s: %s has no label %s", where, name, label)
				}
			}
			common = append(common, have[name]...)
		}
		for _, label := range labels {
			if !slices.Contains(common, label) {
				t.Errorf("%s: nothing has a label %s", where, label)
			}
		}
	}
	for name := range have {
		if strings.HasPrefix(name, "nodeagent_") && !asked[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

func TestSelectedFindsTheSeriesOfAnExpression(t *testing.T) {
	t.Parallel()
	series, labels := selected(`sum by (a, b) (rate(x_total{c=~"y{", d!=""}[5m])) / 3.6e6 unless on (e) count(z) or vector(0)`)
	if got := fmt.Sprint(series, labels); got != "map[x_total:[c d] z:[]] [a b e]" {
		t.Errorf("got %s", got)
	}
}
