// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/test/programs"
)

// ofLibraries are the metrics that Prometheus itself, client-go and controllers' work queues have. The names are those
// of k8s.io/component-base/metrics/prometheus, which gpu-controller and gpu-scheduler import.
var ofLibraries = []string{"up", "leader_election_master_status", "rest_client_requests_total", "workqueue_depth", "workqueue_longest_running_processor_seconds"}

// declared returns all metrics that the sources of our programs declare.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	root := os.DirFS(programs.Root())
	err := fs.WalkDir(root, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/") {
			return err
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		program := programOf(path)
		for _, match := range regexp.MustCompile(`"((?:falldio_gpus?|nodeagent|dradriver|gpu_scheduler)_[a-z_]+)"`).FindAllSubmatch(text, -1) {
			names[string(match[1])] = true
		}
		for _, match := range regexp.MustCompile(`(?:\bName: |gauge\(|counter\(|NewDesc\(metricsNamespace\+)"_?([a-z_]+)"`).FindAllSubmatch(text, -1) {
			names[program+"_"+string(match[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// programOf returns how the names of a program's metrics begin, by the path of a source.
func programOf(path string) string {
	if strings.HasPrefix(path, "scheduler/") {
		return "gpu_scheduler"
	}
	return "gpu_controller" // those of the nodes' programs are written in full
}

var (
	quoted   = regexp.MustCompile(`"[^"]*"`)
	brackets = regexp.MustCompile(`\[[^\]]*\]|\{[^}]*\}`)
	labels   = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	words    = regexp.MustCompile(`[A-Za-z_:][\w:]*`)
	part     = regexp.MustCompile(`_(bucket|sum|count)$`)
	// notMetrics are the words of PromQL that the boards and the alerts use.
	notMetrics = []string{
		"absent", "and", "avg", "count", "e6", "histogram_quantile", "increase", "max", "min", "or", "rate", "sum", "unless", "vector",
	}
)

// metricsIn returns the metrics that an expression selects.
func metricsIn(expression string) []string {
	expression = labels.ReplaceAllString(brackets.ReplaceAllString(quoted.ReplaceAllString(expression, ""), ""), "")
	return slices.DeleteFunc(words.FindAllString(expression, -1), func(word string) bool { return slices.Contains(notMetrics, word) })
}

func TestAlertsAndBoardsAskForMetricsThatExist(t *testing.T) {
	t.Parallel()
	exist := declared(t)
	check := func(where, expression string) {
		t.Helper()
		asked := metricsIn(expression)
		if len(asked) == 0 {
			t.Errorf("%s selects nothing: %s", where, expression)
		}
		for _, name := range asked {
			if !exist[name] && !exist[part.ReplaceAllString(name, "")] && !slices.Contains(ofLibraries, name) {
				t.Errorf("%s: no program has the metric %s", where, name)
			}
		}
	}
	for name, alert := range readRules(t).alerts() {
		check(name, alert.Expr)
	}
	for name, board := range boards(t) {
		for where, expression := range board.expressions() {
			check(name+", "+where, expression)
		}
	}
}

// TestAMetricThatDoesNotExistIsNoticed makes sure that the test above can fail.
func TestAMetricThatDoesNotExistIsNoticed(t *testing.T) {
	t.Parallel()
	exist := declared(t)
	for _, name := range metricsIn(`sum by (a) (rate(gpu_controller_taks{phase="Running"}[5m])) / on (b) nodeagent_polls + gpu_scheduler_tasks`) {
		if exist[name] {
			t.Errorf("%s exists", name)
		}
	}
	for _, name := range []string{
		"gpu_controller_tasks", "gpu_controller_queue_gpus", "gpu_controller_usage_gpu_seconds_total", "gpu_controller_unhealthy_gpu_nodes_held_back",
		"gpu_scheduler_gangs", "gpu_scheduler_reserved_gpus", "gpu_scheduler_wait_duration_seconds", "falldio_gpus_missing", "dradriver_prepare_failures_total",
	} {
		if !exist[name] {
			t.Errorf("%s is not found", name)
		}
	}
}
