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
	"testing/fstest"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/access"
)

const testToken = "the-secret-of-this-test"

// newTestServer returns a server that has not seen a cluster.
func newTestServer(hosts ...string) *Server {
	clients := &cluster.Clients{Config: &rest.Config{Host: "https://example.com"}, Namespace: "default"}
	return New(Options{
		Clients: clients, Gate: access.NewOwner(&access.Viewer{Clients: clients}, testToken), Hosts: hosts, Clock: clock.RealClock{},
		Files: fstest.MapFS{"index.html": {Data: []byte("<!DOCTYPE html>")}, "app.js": {Data: []byte("1")}},
	})
}

func TestWhoMaySendRequests(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method, path, host string
		headers            map[string]string
		want               int
		says               string
	}{
		"the page itself":                                              {path: "/", want: 200},
		"a link on another page may open it":                           {path: "/", headers: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, want: 200},
		"another page may not load its parts":                          {path: "/app.js", headers: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, want: 403, says: "another page"},
		"data without the secret":                                      {path: "/api/history?hours=1", want: 401, says: "has no valid secret"},
		"data with a wrong secret":                                     {path: "/api/history?hours=1", headers: bearer("guess"), want: 401},
		"data with the secret":                                         {path: "/api/history?hours=1", headers: bearer(testToken), want: 200},
		"data with the secret in the address, where others can see it": {path: "/api/history?hours=1&token=" + testToken, want: 401},
		"data with the secret in a cookie, which browsers send along":  {path: "/api/history?hours=1", headers: map[string]string{"Cookie": "token=" + testToken}, want: 401},
		"another method of authentication":                             {path: "/api/history?hours=1", headers: map[string]string{"Authorization": "Basic " + testToken}, want: 401},
		"a name that was made to point here (DNS rebinding)":           {path: "/api/history?hours=1", host: "evil.example:8080", headers: bearer(testToken), want: 421, says: "evil.example"},
		"the page under such a name":                                   {path: "/", host: "evil.example:8080", want: 421},
		"a request that another page has a browser send":               {path: "/api/whatif", method: "POST", headers: with(bearer(testToken), "Origin", "https://evil.example"), want: 403, says: "another page"},
		"one from a page without an origin":                            {path: "/api/whatif", method: "POST", headers: with(bearer(testToken), "Origin", "null"), want: 403},
		"one that the browser says comes from elsewhere":               {path: "/api/history?hours=1", headers: with(bearer(testToken), "Sec-Fetch-Site", "same-site"), want: 403},
		"a navigation to data from elsewhere":                          {path: "/api/history?hours=1", headers: map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, want: 403},
		"the page's own requests":                                      {path: "/api/history?hours=1", headers: with(bearer(testToken), "Origin", "http://127.0.0.1:8080"), want: 200},
		"what does not exist":                                          {path: "/api/other", headers: bearer(testToken), want: 404, says: "another version"},
		"a file that does not exist":                                   {path: "/etc/passwd", want: 404},
		"a page can't be written":                                      {path: "/", method: "POST", want: 405},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequestWithContext(t.Context(), or(test.method, http.MethodGet), "http://127.0.0.1:8080/", http.NoBody)
			request.URL.Path, request.URL.RawQuery, _ = strings.Cut(test.path, "?")
			request.Host = or(test.host, "127.0.0.1:8080")
			for key, value := range test.headers {
				request.Header.Set(key, value)
			}
			response := httptest.NewRecorder()
			newTestServer("127.0.0.1:8080", "localhost:8080").Handler().ServeHTTP(response, request)
			text, _ := io.ReadAll(response.Body)
			if response.Code != test.want || !strings.Contains(string(text), test.says) {
				t.Errorf("status %d, want %d: %s", response.Code, test.want, text)
			}
			if strings.Contains(string(text), testToken) {
				t.Error("the answer has the secret")
			}
			header := response.Header()
			if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
				t.Errorf("Content-Security-Policy: %s", policy)
			}
			if response.Code != http.StatusNotFound && header.Get("Cache-Control") != "no-store" || header.Get("Referrer-Policy") != "no-referrer" || header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("headers: %v", header)
			}
		})
	}
}

func bearer(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

func with(headers map[string]string, key, value string) map[string]string {
	headers[key] = value
	return headers
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func TestRequestsThatAreWrong(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method, path, body string
		want               int
		says               string
	}{
		"text that is too large":            {"POST", "/api/whatif", strings.Repeat("a: b\n", 1<<20), 413, "at most 1024 KiB"},
		"no YAML":                           {"POST", "/api/whatif", "a: [", 422, "reading the text"},
		"no task":                           {"POST", "/api/whatif", "# nothing", 422, "no GPUTasks"},
		"another kind":                      {"POST", "/api/whatif", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}", 422, "there are no GPUTasks in it, but document 1: Pod x"},
		"a field that there is not":         {"POST", "/api/whatif", "apiVersion: falldio.com/v1\nkind: GPUTask\nspec: {gpus: 1}", 422, "line 3: unknown field spec.gpus: did you mean spec.gpu-amount?"},
		"many tasks":                        {"POST", "/api/whatif", strings.Repeat("apiVersion: falldio.com/v1\nkind: GPUTask\n---\n", 21), 422, "at most 20 can be checked"},
		"a change without the UID":          {"POST", "/api/tasks/default/x/delete", `{}`, 400, `field "uid"`},
		"a change that is too large":        {"POST", "/api/tasks/default/x/delete", strings.Repeat(" ", 5000), 413, "at most 4 KiB"},
		"an action that there is not":       {"POST", "/api/plans/x/explode", `{"uid":"1"}`, 404, "no action"},
		"no hours":                          {"GET", "/api/history", "", 400, "hours must be a number from 1"},
		"too many hours":                    {"GET", "/api/history?hours=100000", "", 400, "hours must be"},
		"a GPU without a number":            {"GET", "/api/gpus/a/b", "", 400, "must be a number"},
		"a GPU before the cluster was seen": {"GET", "/api/gpus/a/0", "", 503, "has not been read yet"},
		"no journal":                        {"GET", "/api/journal", "", 200, "the scheduler's journal is not set"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequestWithContext(t.Context(), test.method, "http://127.0.0.1:8080"+test.path, strings.NewReader(test.body))
			request.Header.Set("Authorization", "Bearer "+testToken)
			response := httptest.NewRecorder()
			newTestServer().Handler().ServeHTTP(response, request)
			text, _ := io.ReadAll(response.Body)
			if response.Code != test.want || !strings.Contains(string(text), test.says) {
				// JSON writes some characters in another way.
				var read failure
				if json.Unmarshal(text, &read) != nil || response.Code != test.want || !strings.Contains(read.Error, test.says) {
					t.Errorf("status %d, want %d: %s", response.Code, test.want, text)
				}
			}
		})
	}
}
