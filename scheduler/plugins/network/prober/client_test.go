// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package prober

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const timeout = 300 * time.Millisecond

// metricsOf returns the metrics of a probe.
func metricsOf(success, duration string) string {
	return fmt.Sprintf("# TYPE probe_success gauge\nprobe_success %s\n# TYPE probe_duration_seconds gauge\nprobe_duration_seconds %s\n"+
		"# TYPE probe_http_duration_seconds gauge\nprobe_http_duration_seconds{phase=\"connect\"} 0.1\n", success, duration)
}

func respond(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	var leaks atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaks.Add(1) }))
	t.Cleanup(elsewhere.Close)
	ok := http.StatusOK
	tests := map[string]struct {
		agent   http.HandlerFunc
		want    Answer
		problem string
	}{
		"the target is reached":           {respond(ok, metricsOf("1", "0.25")), Answer{Result: Reached, Duration: 250 * time.Millisecond}, ""},
		"without types":                   {respond(ok, "probe_success 1\nprobe_duration_seconds 0.25\n"), Answer{Result: Reached, Duration: 250 * time.Millisecond}, ""},
		"the target is not reached":       {respond(ok, metricsOf("0", "0.25")), Answer{Result: Failed}, ""},
		"an endless duration":             {respond(ok, metricsOf("1", "+Inf")), Answer{Result: Invalid}, "+Inf is no duration"},
		"a duration of many years":        {respond(ok, metricsOf("1", "1e300")), Answer{Result: Reached, Duration: time.Hour}, ""},
		"a duration that is no number":    {respond(ok, metricsOf("1", "NaN")), Answer{Result: Invalid}, "NaN is no duration"},
		"a negative duration":             {respond(ok, metricsOf("1", "-1")), Answer{Result: Invalid}, "-1 is no duration"},
		"no duration":                     {respond(ok, "probe_success 1\n"), Answer{Result: Invalid}, "probe_duration_seconds: is missing"},
		"no result":                       {respond(ok, "probe_duration_seconds 1\n"), Answer{Result: Invalid}, "probe_success: is missing"},
		"two results":                     {respond(ok, "probe_success{a=\"1\"} 1\nprobe_success{a=\"2\"} 1\n"), Answer{Result: Invalid}, "probe_success: is missing"},
		"a result that is no gauge":       {respond(ok, "# TYPE probe_success counter\nprobe_success 1\n"), Answer{Result: Invalid}, "probe_success: is no gauge"},
		"a page of another server":        {respond(ok, "<html>hello</html>"), Answer{Result: Invalid}, "the answer can't be read"},
		"nothing":                         {respond(ok, ""), Answer{Result: Invalid}, "probe_success: is missing"},
		"an answer without end":           {respond(ok, metricsOf("1", "1")+strings.Repeat("x 1\n", maxAnswerBytes)), Answer{Result: Invalid}, "the answer is longer than 65536 bytes"},
		"a target that is not allowed":    {respond(http.StatusForbidden, "not allowed\n"), Answer{Result: Refused}, "status 403: not allowed"},
		"a refusal without end":           {respond(http.StatusForbidden, strings.Repeat("x", 1<<20)), Answer{Result: Refused}, "status 403: " + strings.Repeat("x", shownBytes)},
		"an agent that is busy":           {respond(http.StatusTooManyRequests, "later"), Answer{Result: Busy}, "status 429: later"},
		"an agent that is broken":         {respond(http.StatusInternalServerError, "broken"), Answer{Result: Invalid}, "status 500"},
		"an agent that sends elsewhere":   {http.RedirectHandler(elsewhere.URL, http.StatusFound).ServeHTTP, Answer{Result: Invalid}, "status 302"},
		"an agent that does not answer":   {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, Answer{Result: Unreachable}, "deadline exceeded"},
		"an agent that hangs up":          {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Answer{Result: Unreachable}, "EOF"},
		"an agent that stops in between":  {stall, Answer{Result: Invalid}, "the answer can't be read"},
		"an agent with too long a header": {longHeader, Answer{Result: Unreachable}, "response headers exceeded"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(test.agent)
			t.Cleanup(server.Close)
			got := newClient(timeout).get(t.Context(), server.URL)
			if got.Result != test.want.Result || got.Duration != test.want.Duration {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if (got.Problem != nil) != (test.problem != "") || got.Problem != nil && !strings.Contains(got.Problem.Error(), test.problem) {
				t.Errorf("got problem %v, want %q in it", got.Problem, test.problem)
			}
		})
	}
	t.Cleanup(func() { // after the subtests
		if leaks.Load() > 0 {
			t.Error("a redirect was followed")
		}
	})
}

func stall(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, "probe_success 1\nprobe_dur")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func longHeader(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Long", strings.Repeat("x", 4*maxHeaderBytes))
}

func TestAgentsAreToldHowLongIsWaited(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, metricsOf("1", r.Header.Get(timeoutHeader)))
	}))
	t.Cleanup(server.Close)
	if got := newClient(timeout).get(t.Context(), server.URL); got.Duration != timeout {
		t.Errorf("got %+v", got)
	}
}

func TestAnAgentWithACertificateOfItsOwnIsAsked(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(respond(http.StatusOK, metricsOf("1", "0.25")))
	t.Cleanup(server.Close)
	if got := newClient(time.Minute).get(t.Context(), server.URL); got.Result != Reached {
		t.Errorf("%+v", got)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	server.Close()
	if got := newClient(timeout).get(t.Context(), url); got.Result != Unreachable || got.Problem == nil {
		t.Errorf("got %+v", got)
	}
}
