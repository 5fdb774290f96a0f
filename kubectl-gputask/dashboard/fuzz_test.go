// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzRequest sends any request of a viewer. The answer is one of HTTP's and not the server's fault,
// except that the cluster has not been seen; it carries the headers that keep a browser from doing
// more, and what is JSON is JSON. Without the token nothing of the API is answered.
func FuzzRequest(f *testing.F) {
	for _, seed := range []struct{ method, target, body string }{
		{"GET", "/api/tasks/default/train/logs?pod=train-0&tail=10&follow=true", ""},
		{"POST", "/api/tasks/default/train/delete", `{"uid":"train"}`},
		{"POST", "/api/plans/p/approve", `{"uid":"x"}`},
		{"GET", "/api/gpus/node-1/99999999999999999999", ""},
		{"GET", "/api/history?hours=-9223372036854775808", ""},
		{"GET", "/api/history/queue?hours=744", ""},
		{"GET", "/api/journal/+1", ""},
		{"GET", "/api/journal?task=default/train&find=t&outcome=Waits", ""},
		{"POST", "/api/whatif", "apiVersion: falldio.com/v1\nkind: GPUTask\nmetadata: {name: a}\nspec: {replicas: 2000000000}\n"},
		{"POST", "/api/tasks", "apiVersion: falldio.com/v1\nkind: GPUTask\nmetadata: {name: a}\nspec: {gpu-amount: 1}\n"},
		{"GET", "/api/tasks/..%2f../train", ""},
		{"HEAD", "/../etc/passwd", ""},
		{"GET", "/api/live%00", ""},
	} {
		f.Add(seed.method, seed.target, seed.body, "", "")
	}
	f.Add("GET", "/api/history?hours=1", "", "http://evil.example.com", "same-origin")
	f.Add("GET", "/", "", "null", "cross-site")
	f.Fuzz(func(t *testing.T, method, target, body, origin, site string) {
		if strings.HasPrefix(target, "/api/live") {
			return // it does not end
		}
		s, _ := serverWith(t)
		for _, token := range []string{testToken, ""} {
			request := requestOf(t, method, target, body)
			if request == nil {
				return
			}
			request.Header.Set("Origin", origin)
			request.Header.Set("Sec-Fetch-Site", site)
			request.Header.Set("Authorization", "Bearer "+token)
			response := httptest.NewRecorder()
			fuzzlimit.Check(t, fuzzlimit.Limits{Bytes: 64 << 20, PerByte: 16 << 10, CPU: 10 * time.Second}, len(target)+len(body), func() { s.Handler().ServeHTTP(response, request) })
			checkResponse(t, request, response, token != "")
		}
	})
}

// requestOf returns a request as the HTTP server would pass it on; nil if it would refuse it.
func requestOf(t *testing.T, method, target, body string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080"+target, strings.NewReader(body))
	if err != nil || request.URL.Host != "127.0.0.1:8080" {
		return nil
	}
	request.RequestURI = target
	return request
}

func checkResponse(t *testing.T, request *http.Request, response *httptest.ResponseRecorder, admitted bool) {
	t.Helper()
	if response.Code < 200 || response.Code >= 600 || response.Code >= 500 && response.Code != http.StatusServiceUnavailable {
		t.Errorf("%s %s is answered with %d: %s", request.Method, request.URL, response.Code, response.Body)
	}
	for _, header := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Cache-Control"} {
		// The file server drops Cache-Control from what it has no file for.
		missing := header == "Cache-Control" && response.Code == http.StatusNotFound && !strings.HasPrefix(request.URL.Path, "/api/")
		if response.Header().Get(header) == "" && !missing {
			t.Errorf("%s %s is answered without %s", request.Method, request.URL, header)
		}
	}
	checkContent(t, request, response, admitted)
}

func checkContent(t *testing.T, request *http.Request, response *httptest.ResponseRecorder, admitted bool) {
	t.Helper()
	if strings.HasPrefix(request.URL.Path, "/api/") && !admitted && response.Code == http.StatusOK {
		t.Errorf("%s %s is answered without the token", request.Method, request.URL)
	}
	if response.Header().Get("Content-Type") == "application/json" && request.Method != http.MethodHead {
		if text, _ := io.ReadAll(response.Body); !json.Valid(text) {
			t.Errorf("%s %s is answered with %q, which is no JSON", request.Method, request.URL, text)
		}
	}
}
