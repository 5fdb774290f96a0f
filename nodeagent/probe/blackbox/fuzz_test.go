// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package blackbox

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/probe"
	"falldio.github.io/gpu-controller/nodeagent/probe/allow"
	"falldio.github.io/gpu-controller/pkg/fuzzlimit"
)

// FuzzModules reads any YAML as modules, and prepares any probe with them. Redirects are not
// followed, and nothing that is not allowed is probed.
func FuzzModules(f *testing.F) {
	f.Add(defaultModules, "https://example.com", "http_2xx")
	f.Add([]byte("modules: {a: {prober: http, timeout: 1s, http: {follow_redirects: true, body_size_limit: 1KB, fail_if_body_matches_regexp: [\"a(\"]}}}\n"), "example.com", "a")
	f.Add([]byte("modules: {a: {prober: dns, dns: {query_name: example.com}}, b: {prober: icmp}}\n"), "127.0.0.1", "b")
	f.Fuzz(func(t *testing.T, text []byte, target, module string) {
		var modules *Modules
		var err error
		fuzzlimit.Check(t, fuzzlimit.Limits{Bytes: 16 << 20, PerByte: 16 << 10, CPU: 5 * time.Second}, len(text), func() { modules, err = ParseModules(text) })
		if err != nil {
			return
		}
		for name, one := range modules.byName {
			if one.HTTP.HTTPClientConfig.FollowRedirects || one.HTTP.BodySizeLimit <= 0 || one.Timeout < 0 {
				t.Errorf("module %s is %+v", name, one)
			}
		}
		prober := New("node", modules, &allow.List{})
		if job, err := prober.Prepare(probe.Question{Target: target, Module: module}); err == nil {
			t.Errorf("%q is probed (%+v), nothing is allowed", target, job)
		} else if refusal := (*probe.RefusalError)(nil); !errors.As(err, &refusal) || refusal.Status < http.StatusBadRequest {
			t.Errorf("the refusal is %v", err)
		}
	})
}
