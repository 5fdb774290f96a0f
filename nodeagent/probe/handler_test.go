// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"
)

// stub is a Prober that does what a test says.
type stub struct {
	timeout time.Duration
	run     func(context.Context) Result
}

func (s stub) Prepare(Question) (*Job, error) {
	return &Job{Timeout: s.timeout, Run: func(ctx context.Context, _ *prometheus.Registry) Result { return s.run(ctx) }}, nil
}

const question = "/probe?target=x"

func ask(ctx context.Context, handler http.Handler) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, question, nil))
	return recorder
}

func TestProbesAreBounded(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	handler := New(Config{Clock: clock.RealClock{}, Limit: 2, Timeout: time.Minute, Prober: stub{run: func(context.Context) Result {
		begun <- struct{}{}
		<-end
		return Result{Reached: true}
	}}})
	answers := make(chan int, 2)
	for range 2 {
		go func() { answers <- ask(t.Context(), handler).Code }()
		<-begun
	}
	recorder := ask(t.Context(), handler)
	if recorder.Code != http.StatusTooManyRequests || recorder.Header().Get("Retry-After") != "1" ||
		!strings.Contains(recorder.Body.String(), "2 probes run already") {
		t.Errorf("the third got %d %v %s", recorder.Code, recorder.Header(), recorder.Body)
	}
	close(end)
	for range 2 {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("one of the first got %d", code)
		}
	}
	go func() { <-begun }()
	if code := ask(t.Context(), handler).Code; code != http.StatusOK {
		t.Errorf("after that: %d", code)
	}
	want := `
		# HELP nodeagent_probes_total Requests to probe a target, by result: success, failure, refused, busy.
		# TYPE nodeagent_probes_total counter
		nodeagent_probes_total{result="busy"} 1
		nodeagent_probes_total{result="success"} 3
	`
	if err := testutil.CollectAndCompare(handler.Collector(), strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		module time.Duration
		header string
		want   time.Duration
		refuse bool
	}{
		"without wishes it is the most":                  {want: 10 * time.Second},
		"a module wants less":                            {module: time.Second, want: time.Second},
		"a module wants more than the most":              {module: time.Minute, want: 10 * time.Second},
		"a client with a shorter timeout":                {header: "5", want: 4500 * time.Millisecond},
		"a client with a short timeout":                  {header: "1", want: 750 * time.Millisecond},
		"a client with a longer timeout than the module": {module: time.Second, header: "5", want: time.Second},
		"a client with a huge timeout":                   {header: "1e300", want: 10 * time.Second},
		"a client with a tiny timeout":                   {header: "1e-9", want: time.Millisecond},
		"a timeout that can't be parsed is refused":      {header: "soon", refuse: true},
		"a timeout of NaN is refused":                    {header: "NaN", refuse: true},
		"a negative timeout is refused":                  {header: "-1", refuse: true},
		"an infinite timeout is the probe's maximum":     {header: "Inf", want: 10 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := New(Config{Timeout: 10 * time.Second})
			header := http.Header{}
			if test.header != "" {
				header.Set(timeoutHeader, test.header)
			}
			got, err := handler.timeout(&Job{Timeout: test.module}, header)
			if got != test.want || (err != nil) != test.refuse {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestAProbeEndsInTime(t *testing.T) {
	t.Parallel()
	handler := New(Config{Clock: clock.RealClock{}, Limit: 1, Timeout: time.Minute, Prober: stub{timeout: time.Millisecond, run: func(ctx context.Context) Result {
		<-ctx.Done()
		return Result{}
	}}})
	if recorder := ask(t.Context(), handler); recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), "probe_success 0") {
		t.Errorf("got %d: %s", recorder.Code, recorder.Body)
	}
}

func TestOffRefusesEverything(t *testing.T) {
	t.Parallel()
	handler := New(Config{Clock: clock.RealClock{}, Limit: 1, Timeout: time.Minute, Prober: Off{Reason: "because"}})
	if recorder := ask(t.Context(), handler); recorder.Code != http.StatusForbidden || recorder.Body.String() != "because\n" {
		t.Errorf("got %d: %s", recorder.Code, recorder.Body)
	}
}
