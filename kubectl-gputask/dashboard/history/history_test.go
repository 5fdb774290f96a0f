// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
)

var begin = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func momentAt(seconds int, parts ...rows.Part) *rows.Moment {
	return &rows.Moment{
		Sample: rows.Sample{Time: metav1.NewTime(begin.Add(time.Duration(seconds) * time.Second)), Total: float64(seconds)}, Parts: rows.Parts{ByQueue: parts},
	}
}

func TestAStoreKeepsTheLastWeek(t *testing.T) {
	t.Parallel()
	store := NewStore()
	for i := range maxSamples + 10 {
		store.Add(momentAt(i))
	}
	if last := store.Last(2); len(last) != 2 || last[1].Total != maxSamples+9 || last[0].Total != maxSamples+8 {
		t.Errorf("the last are %+v", last)
	}
	if all := store.Last(maxSamples + 10); len(all) != maxSamples || all[0].Total != 10 {
		t.Errorf("it keeps %d, from %v", len(all), all[0].Total)
	}
}

func TestALongPeriodIsThinned(t *testing.T) {
	t.Parallel()
	store := NewStore()
	for i := range 2000 {
		store.Add(momentAt(i))
	}
	samples := store.Since(begin.Add(100 * time.Second))
	if len(samples) > maxPoints || len(samples) < maxPoints/2 || samples[0].Total < 100 || samples[len(samples)-1].Total != 1999 {
		t.Errorf("%d samples, from %v to %v", len(samples), samples[0].Total, samples[len(samples)-1].Total)
	}
	if few := store.Since(begin.Add(1990 * time.Second)); len(few) != 10 {
		t.Errorf("of 10 samples there are %d", len(few))
	}
	if none := NewStore().Since(begin); none == nil || len(none) != 0 {
		t.Errorf("an empty store has %v, which is no empty list", none)
	}
}

// prometheus returns a server that answers queries.
func prometheus(t *testing.T, answer http.HandlerFunc) *Prometheus {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL + "/prefix")
	if err != nil {
		t.Fatal(err)
	}
	return &Prometheus{URL: address, HTTP: server.Client()}
}

func TestPrometheusIsAskedForEachCurve(t *testing.T) {
	t.Parallel()
	p := prometheus(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/prefix/api/v1/query_range" || r.FormValue("start") != fmt.Sprint(begin.Unix()) || r.FormValue("step") != "15" {
			t.Errorf("the request is %s", r.URL)
		}
		value := map[string]string{"falldio_gpu_info": "16", "holder_share": "9.5", "healthy": "1", "stranded": "NaN"}
		for part, text := range value {
			if strings.Contains(r.FormValue("query"), part) {
				fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[%d,%q],[%d.5,"2"]]}]}}`, begin.Unix(), text, begin.Unix()+15)
				return
			}
		}
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`) // a cluster without queues
	})
	samples, err := p.Samples(t.Context(), begin, begin.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	want := []rows.Sample{
		{Time: metav1.Unix(begin.Unix(), 0), Total: 16, Allocated: 9.5, Unhealthy: 1},
		{Time: metav1.Unix(begin.Unix()+15, 0), Total: 2, Allocated: 2, Unhealthy: 2, Stranded: 2},
	}
	if diff := cmp.Diff(want, samples); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

func TestWhatPrometheusMayAnswerInstead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer string
		code   int
		want   string
	}{
		"an error":        {`{"status":"error","errorType":"bad_data","error":"unknown function"}`, 400, "400 Bad Request: unknown function"},
		"a page of HTML":  {"<html>", 200, "200 OK: the answer can't be read"},
		"nothing at all":  {"", 502, "502 Bad Gateway: the answer can't be read"},
		"values of words": {`{"status":"success","data":{"result":[{"values":[["x",1],[1,"y"]]}]}}`, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := prometheus(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.code)
				fmt.Fprint(w, test.answer)
			})
			samples, err := p.Samples(t.Context(), begin, begin.Add(time.Hour))
			if test.want == "" {
				if err != nil || len(samples) != 0 {
					t.Errorf("samples %v, error %v", samples, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestAPrometheusThatIsNotThereKeepsItsPassword(t *testing.T) {
	t.Parallel()
	p := &Prometheus{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1", User: url.UserPassword("ann", "secret")}, HTTP: http.DefaultClient}
	_, err := p.Samples(t.Context(), begin, begin.Add(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}
