// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/scheduler/journal"
)

func TestOnlyWhoMayReadTheJournalGetsIt(t *testing.T) {
	t.Parallel()
	recorder, err := journal.New(journal.Options{
		Directory: t.TempDir(), MaxBytes: 1 << 20, Clock: clock.RealClock{}, Logger: ktesting.NewLogger(t, ktesting.NewConfig()),
	})
	if err != nil {
		t.Fatal(err)
	}
	authn := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, found, nil
	})
	authz := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "viewer" && a.GetVerb() == "get" && !a.IsResourceRequest() && a.GetPath() == journal.Path {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "it is not for this user", nil
	})
	handler := protectedJournal(recorder, authn, authz)
	for name, test := range map[string]struct {
		method, path, user string
		want               int
	}{
		"a user who may":          {http.MethodGet, journal.Path, "viewer", http.StatusOK},
		"a user who may not":      {http.MethodGet, journal.Path, "other", http.StatusForbidden},
		"somebody unknown":        {http.MethodGet, journal.Path, "", http.StatusUnauthorized},
		"another path":            {http.MethodGet, "/metrics", "viewer", http.StatusForbidden},
		"a request to change it":  {http.MethodPost, journal.Path, "viewer", http.StatusForbidden},
		"a path that goes around": {http.MethodGet, "/x/.." + journal.Path, "viewer", http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequest(test.method, test.path, nil)
			if test.user != "" {
				request.Header.Set("Authorization", "Bearer "+test.user)
			}
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, request)
			if response.Code != test.want {
				t.Errorf("status %d, want %d: %s", response.Code, test.want, response.Body)
			}
		})
	}
}
