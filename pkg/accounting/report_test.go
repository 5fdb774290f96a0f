// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// twoDays returns the Books of two days with a few tasks.
func twoDays() []*Book {
	first := NewBook(midnight.Add(6 * time.Hour))
	first.AsOf = first.End()
	second := first.Next()
	second.AsOf = second.Day.Add(10*time.Hour + 30*time.Minute)
	vision := Key{Namespace: "vision", Task: "train", Queue: "vision", Model: "h100", Labels: "project=x,team=v"}
	nlp := Key{Namespace: "nlp", Task: "train", Queue: "nlp", Model: "a100", Labels: "project=y"}
	plain := Key{Namespace: "nlp", Task: "Pod/web", Model: "a100"}
	first.Add(vision, first.Day.Add(23*time.Hour), inGPUSeconds(100, 10, 1))
	second.Add(vision, second.Day, inGPUSeconds(200, 20, 2))
	second.Add(nlp, second.Day.Add(9*time.Hour), inGPUSeconds(400, 40, 4))
	second.Add(plain, second.Day.Add(10*time.Hour), inGPUSeconds(800, 0, 0))
	return []*Book{second, first}
}

func TestUsageIsToldByDimensions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		by           string
		namespace    string
		since, until time.Duration
		want         []Row
	}{
		"by queue":          {"queue", "", 0, 48 * time.Hour, []Row{{[]string{""}, inGPUSeconds(800, 0, 0)}, {[]string{"nlp"}, inGPUSeconds(400, 40, 4)}, {[]string{"vision"}, inGPUSeconds(300, 30, 3)}}},
		"by namespace":      {"namespace", "", 0, 48 * time.Hour, []Row{{[]string{"nlp"}, inGPUSeconds(1200, 40, 4)}, {[]string{"vision"}, inGPUSeconds(300, 30, 3)}}},
		"by task":           {"task", "", 0, 48 * time.Hour, []Row{{[]string{"nlp", "Pod/web"}, inGPUSeconds(800, 0, 0)}, {[]string{"nlp", "train"}, inGPUSeconds(400, 40, 4)}, {[]string{"vision", "train"}, inGPUSeconds(300, 30, 3)}}},
		"by model":          {"model", "", 0, 48 * time.Hour, []Row{{[]string{"a100"}, inGPUSeconds(1200, 40, 4)}, {[]string{"h100"}, inGPUSeconds(300, 30, 3)}}},
		"by label":          {"label:project", "", 0, 48 * time.Hour, []Row{{[]string{""}, inGPUSeconds(800, 0, 0)}, {[]string{"y"}, inGPUSeconds(400, 40, 4)}, {[]string{"x"}, inGPUSeconds(300, 30, 3)}}},
		"by two":            {"model,label:team", "", 0, 48 * time.Hour, []Row{{[]string{"a100", ""}, inGPUSeconds(1200, 40, 4)}, {[]string{"h100", "v"}, inGPUSeconds(300, 30, 3)}}},
		"of a namespace":    {"queue", "vision", 0, 48 * time.Hour, []Row{{[]string{"vision"}, inGPUSeconds(300, 30, 3)}}},
		"of the first day":  {"queue", "", 0, 24 * time.Hour, []Row{{[]string{"vision"}, inGPUSeconds(100, 10, 1)}}},
		"of part of a day":  {"queue", "", 24 * time.Hour, 33 * time.Hour, []Row{{[]string{"vision"}, inGPUSeconds(200, 20, 2)}}},
		"hours are whole":   {"queue", "", 33*time.Hour + 59*time.Minute, 33*time.Hour + 59*time.Minute + time.Second, []Row{{[]string{"nlp"}, inGPUSeconds(400, 40, 4)}}},
		"of a time without": {"queue", "", 28 * time.Hour, 29 * time.Hour, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by, err := ParseBy(test.by)
			if err != nil {
				t.Fatal(err)
			}
			report := Summarize(twoDays(), &Query{By: by, Namespace: test.namespace, Since: midnight.Add(test.since), Until: midnight.Add(test.until)})
			if diff := cmp.Diff(test.want, report.Rows); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			total := Amounts{}
			for _, row := range test.want {
				total = total.Plus(row.Amounts)
			}
			if report.Total != total {
				t.Errorf("the total is %+v, want %+v", report.Total, total)
			}
		})
	}
}

func TestAReportSaysWhatIsCounted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		since, until time.Duration
		want         [2]time.Duration
	}{
		"more than there is": {-48 * time.Hour, 96 * time.Hour, [2]time.Duration{6 * time.Hour, 34*time.Hour + 30*time.Minute}},
		"a part":             {7 * time.Hour, 30 * time.Hour, [2]time.Duration{7 * time.Hour, 30 * time.Hour}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := Summarize(twoDays(), &Query{By: []string{ByQueue}, Since: midnight.Add(test.since), Until: midnight.Add(test.until)})
			if got := [2]time.Duration{report.CountedSince.Sub(midnight), report.CountedUntil.Sub(midnight)}; got != test.want {
				t.Errorf("from %v to %v, want %v", got[0], got[1], test.want)
			}
		})
	}
	if report := Summarize(twoDays(), &Query{Since: midnight.Add(-2 * time.Hour), Until: midnight}); !report.CountedSince.IsZero() || !report.CountedUntil.IsZero() {
		t.Errorf("of a time before the first count: %+v", report)
	}
}

func TestUnknownDimensionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "user", "label:", "queue,", "Queue"} {
		if by, err := ParseBy(text); err == nil || !strings.Contains(err.Error(), "must be queue, namespace, task, model or label:KEY") {
			t.Errorf("%q is %q, error %v", text, by, err)
		}
	}
	by, err := ParseBy("task,namespace,task")
	if diff := cmp.Diff([]string{"namespace", "task"}, by); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

func TestOnlySomeLabelsAreAccounted(t *testing.T) {
	t.Parallel()
	got := FormatLabels(map[string]string{"team": "v", "project": "", "app": "x"}, []string{"team", "project", "user", "team"})
	if got != "project=,team=v" {
		t.Errorf("got %q", got)
	}
	if labelIn(got, "team") != "v" || labelIn(got, "eam") != "" || labelIn(got, "user") != "" {
		t.Errorf("labels are not found in %q", got)
	}
}
