// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

func TestWritesAreMadeByTheLeaderOnly(t *testing.T) {
	leads := NewGuard(clock.RealClock{})
	leads.held(1, time.Now().Add(time.Hour))
	late := NewGuard(clock.RealClock{})
	late.held(1, time.Now().Add(-time.Millisecond))
	for _, test := range []struct {
		guard    *Guard
		mayWrite bool
	}{{NewGuard(clock.RealClock{}), false}, {leads, true}, {late, false}, {Always(), true}} {
		fenced := test.guard.Fence(transport(func(*http.Request) (*http.Response, error) {
			return &http.Response{Body: io.NopCloser(strings.NewReader("answer"))}, nil
		}))
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			request, err := http.NewRequestWithContext(t.Context(), method, "http://host", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := fenced.RoundTrip(request)
			if want := test.mayWrite || method == http.MethodGet; (err == nil) != want || err != nil && !errors.Is(err, ErrNotLeading) {
				t.Errorf("%s: %v, allowed %v", method, err, want)
			}
			if err != nil {
				continue
			}
			if text, err := io.ReadAll(response.Body); string(text) != "answer" || err != nil {
				t.Errorf("%s: answer %q, %v", method, text, err)
			}
			if err := response.Body.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAWriteInFlightEndsWithTheTerm(t *testing.T) {
	guard := NewGuard(clock.RealClock{})
	until := time.Now().Add(100 * time.Millisecond)
	guard.held(1, until)
	fenced := guard.Fence(transport(func(request *http.Request) (*http.Response, error) {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://host", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fenced.RoundTrip(request); err == nil || time.Now().Before(until) { //nolint:bodyclose // there is no response
		t.Errorf("it ended before its time: %v", err)
	}
}
