// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"os"
	"testing"

	"falldio.github.io/gpu-controller/test/auditlog"
)

// request is what a process wants of the API server.
type request struct {
	verb, group, resource, namespace, name string
	refused                                bool // for lack of rights
}

// readAudit returns the requests in an audit log, each once, by the user who made them.
func readAudit(t *testing.T, path string) map[string][]request {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	seen := map[string]map[request]bool{}
	requests := map[string][]request{}
	err = auditlog.Read(file, func(event *auditlog.Event) {
		one := request{
			verb: event.Verb, group: event.Group, resource: event.Resource, namespace: event.Namespace, name: event.Name,
			refused: event.Code == http.StatusForbidden,
		}
		if seen[event.User][one] {
			return
		}
		if seen[event.User] == nil {
			seen[event.User] = map[request]bool{}
		}
		seen[event.User][one] = true
		requests[event.User] = append(requests[event.User], one)
	})
	if err != nil {
		t.Fatal(err)
	}
	return requests
}
