// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"falldio.github.io/gpu-controller/pkg/accounting"
)

// withUsage adds the books of two days; the ConfigMap of the day before still has an earlier one.
func withUsage(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	today := accounting.NewBook(testTime.Truncate(24 * time.Hour))
	today.AsOf = testTime.Add(-75 * time.Second)
	yesterday := accounting.NewBook(today.Day.Add(-18 * time.Hour))
	yesterday.AsOf = today.Day
	old := accounting.NewBook(today.Day.AddDate(0, 0, -2-accounting.Days))
	hours := func(used, waiting, lost float64) accounting.Amounts {
		return accounting.Amounts{Used: accounting.Time(used * 360_000), Waiting: accounting.Time(waiting * 360_000), Lost: accounting.Time(lost * 360_000)}
	}
	train := accounting.Key{Namespace: "vision", Task: "train", Queue: "vision", Model: "h100", Labels: "team=v"}
	yesterday.Add(train, today.Day.Add(-time.Hour), hours(8, 0.5, 2))
	today.Add(train, today.Day, hours(64, 0, 0))
	today.Add(accounting.Key{Namespace: "nlp", Task: "bert", Queue: "nlp", Model: "h100"}, testTime.Add(-time.Hour), hours(24.5, 12, 0.25))
	today.Add(accounting.Key{Namespace: "nlp", Task: "Pod/notebook", Model: "a100"}, testTime.Add(-time.Hour), hours(0.75, 0, 0))
	old.Add(train, old.Day, hours(1000, 0, 0))
	for _, book := range []*accounting.Book{today, yesterday, old} {
		content, err := book.Encode()
		if err != nil {
			t.Fatal(err)
		}
		f.add(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: accounting.StoreNamespace, Name: accounting.StoreName(book.Day)},
			BinaryData: map[string][]byte{accounting.StoreKey: content},
		})
	}
	return f
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ golden, args string }{
		"by queue":               {"usage-queue", ""},
		"by task":                {"usage-task", "--by task"},
		"by two, in colours":     {"usage-model", "--by model,label:team --since 12h --color always"},
		"of a namespace, as CSV": {"usage-csv", "--by namespace,queue -n nlp -o csv"},
		"as JSON":                {"usage-json", "--by task --since 2026-11-20 --until 2026-11-21T00:00:00Z -o json"},
		"as a table":             {"usage-table", "--by label:team --since 2026-11-21 --until 2026-11-21T10:00:00Z -o table"},
		"of a time without":      {"usage-none", "--since 30d --until 20d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withUsage(t).golden(test.golden, append([]string{"usage"}, strings.Fields(test.args)...)...)
		})
	}
}

func TestUsageRefuses(t *testing.T) {
	t.Parallel()
	const times = `must be how long ago, for example "7d" or "12h", or a time, "2026-11-01" or "2026-11-01T12:00:00Z"`
	for name, test := range map[string]struct{ args, want string }{
		"an unknown dimension": {"--by user", `--by: "user": must be queue, namespace, task, model or label:KEY, or several of them with commas`},
		"an unknown begin":     {"--since yesterday", "--since=yesterday: " + times},
		"a negative begin":     {"--since=-1h", "--since=-1h: " + times},
		"an unknown end":       {"--until 1w", "--until=1w: " + times},
		"an end before":        {"--since 1d --until 2d", "--since=1d --until=2d: the period must begin before it ends"},
		"an unknown format":    {"-o wide", "--output=wide: must be one of table, csv, json, yaml, jsonpath=, jsonpath-file=, jsonpath-as-json=, go-template=, go-template-file="},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := errorText(withUsage(t).run(append([]string{"usage"}, strings.Fields(test.args)...)...)); got != test.want {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
}

func TestUsageThatCanNotBeRead(t *testing.T) {
	t.Parallel()
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"it is forbidden":    {apierrors.NewForbidden(configMaps, "gpu-usage-71", errors.New("no")), "ask for the Role gpu-usage-view there"},
		"there is no answer": {errors.New("the API server is busy"), "reading the usage of GPUs: the API server is busy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := withUsage(t)
			f.kube.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			if got := errorText(f.run("usage")); !strings.Contains(got, test.want) {
				t.Errorf("error %q, want %q", got, test.want)
			}
		})
	}
	f := withUsage(t)
	name := accounting.StoreName(testTime)
	broken := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: accounting.StoreNamespace, Name: name}}
	if _, err := f.kube.CoreV1().ConfigMaps(accounting.StoreNamespace).Update(t.Context(), broken, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := errorText(f.run("usage")); !strings.HasPrefix(got, "ConfigMap gpu-controller-usage/"+name+": decompressing usage") {
		t.Errorf("error %q", got)
	}
}
