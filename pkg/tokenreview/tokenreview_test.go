// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package tokenreview

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// apiServer answers reviews: the tokens "good" and "poor" are those of users, of whom only the first may get /metrics.
type apiServer struct {
	t *testing.T
	// down is a path that is answered with an error.
	down     string
	requests atomic.Int32
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.requests.Add(1)
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch {
	case a.down != "" && strings.HasSuffix(r.URL.Path, a.down):
		http.Error(w, "it is down", http.StatusInternalServerError)
		return
	case r.URL.Path == "/apis/authentication.k8s.io/v1/tokenreviews":
		review := &authenticationv1.TokenReview{}
		a.decode(r, review)
		if review.Spec.Token == "good" || review.Spec.Token == "poor" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
				Username: review.Spec.Token, Groups: []string{"team"}, Extra: map[string]authenticationv1.ExtraValue{"scope": {"all"}},
			}}
		}
		answer = review
	case r.URL.Path == "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		review := &authorizationv1.SubjectAccessReview{}
		a.decode(r, review)
		spec := &review.Spec
		review.Status.Allowed = spec.User == "good" && slices.Equal(spec.Groups, []string{"team"}) && len(spec.Extra["scope"]) == 1 &&
			*spec.NonResourceAttributes == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
		answer = review
	default:
		a.t.Errorf("unexpected request %s %s", r.Method, r.URL)
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		a.t.Error(err)
	}
}

func (a *apiServer) decode(r *http.Request, review any) {
	if err := json.NewDecoder(r.Body).Decode(review); err != nil {
		a.t.Error(err)
	}
}

// protected returns a handler that says "secret" to whom an API server allows it.
func (a *apiServer) protected(clock *clocktesting.FakeClock) http.Handler {
	server := httptest.NewServer(a)
	a.t.Cleanup(server.Close)
	gate, err := New(&rest.Config{Host: server.URL}, clock)
	if err != nil {
		a.t.Fatal(err)
	}
	return gate.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("secret")) }))
}

func get(t *testing.T, handler http.Handler, path, authorization string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

func TestTheAPIServerSaysWhoMayReadWhat(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		authorization, path, down string
		status                    int
		says                      string
	}{
		"who may":                                    {"Bearer good", "/metrics", "", http.StatusOK, "secret"},
		"who brings no token":                        {"", "/metrics", "", http.StatusUnauthorized, ""},
		"who brings an empty token":                  {"Bearer ", "/metrics", "", http.StatusUnauthorized, ""},
		"who brings a password":                      {"Basic Z29vZDo=", "/metrics", "", http.StatusUnauthorized, ""},
		"who brings a forged token":                  {"Bearer forged", "/metrics", "", http.StatusUnauthorized, ""},
		"who may not":                                {"Bearer poor", "/metrics", "", http.StatusForbidden, `forbidden: User "poor" cannot get path "/metrics"`},
		"who may get another path":                   {"Bearer good", "/debug/pprof/heap", "", http.StatusForbidden, "/debug/pprof/heap"},
		"nobody, while it does not say who they are": {"Bearer good", "/metrics", "tokenreviews", http.StatusUnauthorized, ""},
		"nobody, while it does not say who may":      {"Bearer good", "/metrics", "subjectaccessreviews", http.StatusInternalServerError, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := (&apiServer{t: t, down: test.down}).protected(clocktesting.NewFakeClock(time.Unix(0, 0)))
			answer := get(t, handler, test.path, test.authorization)
			if answer.Code != test.status || !strings.Contains(answer.Body.String(), test.says) {
				t.Errorf("%d %q, want %d %q", answer.Code, answer.Body, test.status, test.says)
			}
			if asked := answer.Header().Get("WWW-Authenticate") != ""; asked != (test.status == http.StatusUnauthorized) {
				t.Errorf("asked for a token: %t", asked)
			}
			if test.status != http.StatusOK && strings.Contains(answer.Body.String(), "secret") {
				t.Error("the handler was called")
			}
		})
	}
}

func TestAVerdictHoldsForAFewSeconds(t *testing.T) {
	t.Parallel()
	api, clock := &apiServer{t: t}, clocktesting.NewFakeClock(time.Unix(0, 0))
	handler := api.protected(clock)
	scrape := func(authorization string, want int, requests int32) {
		t.Helper()
		if answer := get(t, handler, "/metrics", authorization); answer.Code != want || api.requests.Load() != requests {
			t.Errorf("%q: status %d, %d requests to the API server so far; want %d, %d", authorization, answer.Code, api.requests.Load(), want, requests)
		}
	}
	scrape("Bearer good", http.StatusOK, 2)
	scrape("Bearer good", http.StatusOK, 2)
	scrape("Bearer poor", http.StatusForbidden, 4)
	scrape("Bearer poor", http.StatusForbidden, 4)
	scrape("Bearer forged", http.StatusUnauthorized, 5)
	scrape("Bearer forged", http.StatusUnauthorized, 5)
	clock.Step(verdictFor + time.Nanosecond)
	scrape("Bearer good", http.StatusOK, 7)
	api.down = "tokenreviews"
	scrape("Bearer good", http.StatusOK, 7)
	clock.Step(verdictFor + time.Nanosecond)
	if answer := get(t, handler, "/metrics", "Bearer good"); answer.Code != http.StatusUnauthorized {
		t.Errorf("while the API server is down: status %d", answer.Code)
	}
	api.down = ""
	if answer := get(t, handler, "/metrics", "Bearer good"); answer.Code != http.StatusOK {
		t.Errorf("once the API server answers again: status %d", answer.Code)
	}
}
