// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestReadyzSaysWhatTheLeaderWaitsFor(t *testing.T) {
	t.Parallel()
	why := "it waits for default/a"
	ready := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	handler := genericapifilters.WithAuthorization(ready, readiness{authorizerfactory.NewAlwaysAllowAuthorizer(), func() string { return why }}, scheme.Codecs)
	handler = genericapifilters.WithRequestInfo(handler, &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString(), GrouplessAPIPrefixes: sets.NewString()})
	get := func(path string) (int, string) {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		return answer.Code, answer.Body.String()
	}
	if code, body := get("/readyz"); code != http.StatusInternalServerError || !strings.Contains(body, why) {
		t.Errorf("while it waits, /readyz answers %d %q", code, body)
	}
	for _, path := range []string{"/livez", "/healthz", "/metrics"} {
		if code, body := get(path); code != http.StatusOK {
			t.Errorf("while it waits, %s answers %d %q", path, code, body)
		}
	}
	why = ""
	if code, body := get("/readyz"); code != http.StatusOK {
		t.Errorf("afterwards, /readyz answers %d %q", code, body)
	}
}
