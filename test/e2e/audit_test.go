// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// request is what a process wants of the API server.
type request struct {
	verb, group, resource, namespace, name string
	refused                                bool // for lack of rights
}

// readAudit returns the requests for resources in an audit log, each once, by the user who made
// them: if the user acted as another, by that one.
func readAudit(t *testing.T, path string) map[string][]request {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	seen := map[string]map[request]bool{}
	requests := map[string][]request{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		event := auditv1.Event{}
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			break // the last line is being written
		}
		user, one, ofResource := requestIn(&event)
		if !ofResource || seen[user][one] {
			continue
		}
		if seen[user] == nil {
			seen[user] = map[request]bool{}
		}
		seen[user][one] = true
		requests[user] = append(requests[user], one)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return requests
}

// requestIn returns the request that an event is about; false if it is not for a resource.
func requestIn(event *auditv1.Event) (user string, one request, ofResource bool) {
	user = event.User.Username
	if event.ImpersonatedUser != nil {
		user = event.ImpersonatedUser.Username
	}
	object := event.ObjectRef
	if object == nil || object.Resource == "" {
		return user, one, false
	}
	one = request{verb: event.Verb, group: object.APIGroup, resource: object.Resource, namespace: object.Namespace, name: object.Name}
	if object.Subresource != "" {
		one.resource += "/" + object.Subresource
	}
	one.refused = event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusForbidden
	return user, one, true
}
