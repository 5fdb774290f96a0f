// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
	"falldio.github.io/gpu-controller/pkg/accounting"
)

func TestPartsAreKeptOnceAMinute(t *testing.T) {
	t.Parallel()
	store := NewStore()
	for i := range 4*maxSplits + 40 {
		store.Add(momentAt(15*i, rows.Part{Name: "a", Allocated: float64(i), Waiting: 1}))
	}
	if len(store.moments) != maxSplits {
		t.Errorf("%d moments are kept, want those of a week", len(store.moments))
	}
	splits := store.Splits(accounting.ByQueue, begin.Add(time.Hour))
	if len(splits) > maxPoints || len(splits) < maxPoints/2 || !splits[0].Time.After(begin.Add(time.Hour)) {
		t.Errorf("%d moments, the first of %v", len(splits), splits[0].Time)
	}
	last := float64(4*maxSplits + 39)
	for dimension, want := range map[string][]rows.Part{
		accounting.ByQueue: {{Name: "a", Allocated: last, Waiting: 1}}, accounting.ByModel: nil, "": {{Allocated: last, Waiting: 1}},
	} {
		if diff := cmp.Diff(want, store.Now(dimension)); diff != "" {
			t.Errorf("now, by %q (-want +got):\n%s", dimension, diff)
		}
	}
}

func startAt(minutes int, name string, waited time.Duration) rows.Start {
	return rows.Start{UID: types.UID(fmt.Sprint(name, minutes)), At: begin.Add(time.Duration(minutes) * time.Minute), Waited: waited, Queue: name}
}

func TestStartsAreRememberedOnceAndWhenTheirTasksAreGone(t *testing.T) {
	t.Parallel()
	store := NewStore()
	store.Add(&rows.Moment{Sample: momentAt(0).Sample, Starts: []rows.Start{startAt(-10, "a", 0), startAt(-5, "a", 0)}})
	store.Add(&rows.Moment{Sample: momentAt(60).Sample, Starts: []rows.Start{startAt(-5, "a", 0), startAt(1, "b", 0)}})
	store.Add(momentAt(120))
	if starts, since := store.Starts(begin.Add(-7 * time.Minute)); len(starts) != 2 || !since.Equal(begin) {
		t.Errorf("starts %+v, all since %v", starts, since)
	}
}

func TestTheFirstOfVeryManyStartsAreForgotten(t *testing.T) {
	t.Parallel()
	store, all := NewStore(), make([]rows.Start, maxStarts+5)
	for i := range all {
		all[len(all)-1-i] = startAt(i, "a", 0)
	}
	for range 2 { // what was forgotten does not come back although its task is still there
		store.Add(&rows.Moment{Sample: momentAt(0).Sample, Starts: all})
		if starts, since := store.Starts(time.Time{}); len(starts) != maxStarts || len(store.starts.known) != maxStarts || !since.Equal(begin.Add(4*time.Minute)) {
			t.Errorf("%d starts are kept, all since %v", len(starts), since)
		}
	}
}

func TestCurvesAreThoseOfTheLargestAndOneOfTheOthers(t *testing.T) {
	t.Parallel()
	var parts []rows.Part
	for i := range maxCurves {
		parts = append(parts, rows.Part{Name: fmt.Sprint("large-", i), Allocated: 100 - float64(i)})
	}
	small, idle := rows.Part{Name: "small", Allocated: 0.254}, rows.Part{Name: "idle", Waiting: 4}
	curves := CurvesOf([]Split{{begin, append(parts, small, idle)}, {begin.Add(time.Minute), []rows.Part{parts[0], {Name: accounting.Others, Allocated: 2}}}})
	if len(curves.Series) != maxCurves+1 {
		t.Fatalf("the curves are %+v", curves)
	}
	if diff := cmp.Diff([]rows.Series{{Name: "large-0", GPUs: []float64{100, 100}}, {Name: "large-1", GPUs: []float64{99, 0}}}, curves.Series[:2]); diff != "" {
		t.Errorf("the first curves (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(rows.Series{Name: accounting.Others, GPUs: []float64{0.25, 2}}, curves.Series[maxCurves]); diff != "" {
		t.Errorf("the last curve (-want +got):\n%s", diff)
	}
	if few := CurvesOf([]Split{{begin, []rows.Part{small, idle}}}); len(few.Series) != 1 {
		t.Errorf("one name with GPUs has the curves %+v", few.Series)
	}
}

func hours(values ...float64) *accounting.Report {
	report := &accounting.Report{}
	for i, value := range values {
		report.Rows = append(report.Rows, accounting.Row{Values: []string{fmt.Sprint("q", i)}, Amounts: accounting.Amounts{Used: accounting.Time(value * 360_000)}})
	}
	return report
}

func TestTheTableHasWhatIsKnownOfEachName(t *testing.T) {
	t.Parallel()
	starts := []rows.Start{startAt(0, "q0", 4*time.Second), startAt(1, "q0", time.Second), startAt(2, "q0", 9*time.Second), startAt(3, "q0", 2*time.Second), startAt(4, "new", time.Minute)}
	now := []rows.Part{{Name: "q1", Allocated: 3, Waiting: 2.5}}
	want := []rows.SplitRow{
		{Name: "q1", GPUHours: new(2.0), Waiting: 2.5},
		{Name: "q0", GPUHours: new(0.5), Started: 4, Waits: &rows.Waits{MedianSeconds: 3, P95Seconds: 8.25}},
		{Name: "new", GPUHours: new(0.0), Started: 1, Waits: &rows.Waits{MedianSeconds: 60, P95Seconds: 60}},
	}
	if diff := cmp.Diff(want, Table(accounting.ByQueue, hours(0.5, 2), starts, now)); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
	for _, row := range Table(accounting.ByQueue, nil, starts, now) {
		if row.GPUHours != nil {
			t.Errorf("without books there are GPU-hours: %+v", row)
		}
	}
}

func TestATableOfVeryManyNamesAddsUpTheOthers(t *testing.T) {
	t.Parallel()
	values := make([]float64, rows.MaxParts+10)
	for i := range values {
		values[i] = 1
	}
	now := []rows.Part{{Name: accounting.Others, Waiting: 7}, {Name: "q39", Waiting: 1}}
	table := Table(accounting.ByQueue, hours(values...), []rows.Start{startAt(0, "z", time.Second)}, now)
	others := table[len(table)-1]
	total := 0.0
	for _, row := range table {
		total += *row.GPUHours
	}
	if len(table) != rows.MaxParts+1 || others.Name != accounting.Others || others.Started != 1 || others.Waiting != 7 || total != float64(len(values)) {
		t.Errorf("%d rows with %v GPU-hours, the last is %+v", len(table), total, others)
	}
}

// matrix is an answer of Prometheus with one value of each series.
func matrix(label string, values map[string]string) string {
	var parts []string
	for name, value := range values {
		parts = append(parts, fmt.Sprintf(`{"metric":{%q:%q},"values":[[%d,%q]]}`, label, name, begin.Unix(), value))
	}
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(parts, ",") + `]}}`
}

func TestPrometheusIsAskedForTheParts(t *testing.T) {
	t.Parallel()
	for dimension, test := range map[string]struct {
		query, largest string
		want           []rows.Part
	}{
		accounting.ByQueue: {
			"sum by (queue) (rate(gpu_controller_usage_gpu_seconds_total[300s]))", matrix("queue", map[string]string{"vision": "6", "": "1"}),
			[]rows.Part{{Name: "vision", Allocated: 6}, {Name: accounting.Others, Allocated: 3}, {Allocated: 1}},
		},
		accounting.ByNamespace: {"sum by (namespace) (rate(", matrix("namespace", map[string]string{"nlp": "10"}), []rows.Part{{Name: "nlp", Allocated: 10}}},
		accounting.ByModel: {
			"sum by (modelName) (min by (UUID)", matrix("modelName", map[string]string{"NVIDIA H100 80GB HBM3": "10", "NVIDIA L4": "0"}),
			[]rows.Part{{Name: "h100-80gb-hbm3", Allocated: 10}},
		},
	} {
		t.Run(dimension, func(t *testing.T) {
			t.Parallel()
			p := prometheus(t, func(w http.ResponseWriter, r *http.Request) {
				switch query := r.FormValue("query"); {
				case !strings.Contains(query, test.query):
					t.Errorf("the query is %s", query)
				case strings.HasPrefix(query, "topk(30, "):
					fmt.Fprint(w, test.largest)
				default:
					fmt.Fprint(w, matrix("", map[string]string{"": "10"}))
				}
			})
			splits, missing, err := p.Splits(t.Context(), dimension, begin, begin.Add(time.Hour))
			if err != nil || missing != "" {
				t.Fatalf("missing %q, error %v", missing, err)
			}
			if diff := cmp.Diff([]Split{{time.Unix(begin.Unix(), 0), test.want}}, splits); diff != "" {
				t.Errorf("the parts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrometheusMayLackTheMetricsOfASplit(t *testing.T) {
	t.Parallel()
	p := prometheus(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, matrix("", nil)) })
	for dimension, want := range map[string]string{accounting.ByQueue: "gpu_controller_usage_gpu_seconds_total", accounting.ByModel: "falldio_gpu_info"} {
		splits, missing, err := p.Splits(t.Context(), dimension, begin, begin.Add(time.Hour))
		if err != nil || len(splits) != 0 || !strings.Contains(missing, want) {
			t.Errorf("by %s: %v, missing %q, error %v", dimension, splits, missing, err)
		}
	}
}
